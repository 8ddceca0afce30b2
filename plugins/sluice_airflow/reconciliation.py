"""Compare every day that the batch layer computed with the online results, then publish it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from sluice_airflow import run_configuration
from sluice_airflow.connections import asettings, settings

POLL_SECONDS = 2.0
#: A period's last day is computed in the night after it; the following night tries again.
OVERDUE = timedelta(days=2)
Day = dict[str, Any]  # {"topic", "day", "cut", ...} as the asset's event has it


class SpeedPassedTrigger(BaseTrigger):
    """Fires once the speed layer has counted and projected all below the cut of one day."""

    def __init__(self, days: list[Day]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.days = days

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__name__}", {"days": self.days}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        now = await asettings()
        waiting = ""
        while True:
            try:
                behind = await asyncio.to_thread(not_passed, now, self.days)
            except Exception as error:  # a database that restarts is no reason to give up the wait
                self.log.warning("not known how far the speed layer is: %s", error)
                behind = self.days
            if len(behind) < len(self.days):
                yield TriggerEvent({"status": "passed"})
                return
            if waiting != (waiting := "; ".join(map(name, behind))):
                self.log.info("waiting for the speed layer: %s", waiting)
            await asyncio.sleep(POLL_SECONDS)


class Reconcile(BaseOperator):
    """Reconcile the days of *every* event that triggered the run: several can come as one run.

    Each day is compared as soon as the speed layer has passed its cut; for the others the run waits in the
    triggerer. So neither a topic that stands still nor a day that differs keeps the others from being
    compared and published. The run fails at the end with all differences named, and is not tried again for
    them. A run by hand takes ``{"days": [{"topic", "day"}]}`` from its configuration, or all days that were
    computed and not yet published.

    Runs for events that come together would each compare all days, so a run leaves out the days that an
    earlier run published since they were computed. Airflow can also leave an event behind that is written
    while it makes a run for an earlier event: it would be taken only with the next event. So a run also takes
    the days that wait to be published. The event left behind is older than the run, and so is its day.
    """

    def __init__(self, *, asset: Asset, patience: timedelta = timedelta(hours=6), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asset, self.patience = asset, patience

    def execute(self, context: Any) -> None:
        events = context["triggering_asset_events"][self.asset] if context["triggering_asset_events"] else []
        now = settings()
        days = newest(day for event in events for day in event.extra.get("days", []))
        named = context["dag_run"].conf or {}
        if not days:
            days = unpublished(now, named)
        else:
            if context["ti"].try_number == 1:  # a run that was cleared compares its days once more
                days = [day for day in days if not is_final(now, day)]
            days = newest([*waiting(now), *days])
        if not days:
            self.log.info("nothing to reconcile: no such day is computed and waits to be published")
            return
        self.log.info("%d events, to reconcile: %s", len(events), "; ".join(map(name, days)))
        self.compare(context, days=days)

    def compare(
        self,
        context: Any,
        event: dict[str, str] | None = None,
        *,
        days: list[Day],
        differing: Sequence[str] = (),
        broken: Sequence[str] = (),
    ) -> None:
        """Compare the days that can be compared by now, and wait for the rest.

        What was found so far is kept over the wait. Raises AirflowFailException where results differ,
        AirflowException where it could not compare.
        """
        for chatty in ("great_expectations", "pyhive"):  # hundreds of lines that say nothing of the day
            logging.getLogger(chatty).setLevel(logging.WARNING)
        now = settings()
        differing, broken = list(differing), list(broken)
        behind = not_passed(now, days)
        for day in days:
            if day not in behind:
                self._compare(now, day, differing, broken)
        if behind:
            self.defer(
                trigger=SpeedPassedTrigger(behind),
                method_name="compare",
                kwargs={"days": behind, "differing": differing, "broken": broken},
                timeout=self.patience,
            )
        alert_open_periods(now)
        said = "\n".join([*differing, *broken])
        if broken:  # tried again: days that are published already are compared again, which changes nothing
            raise AirflowException(said)
        if differing:
            raise AirflowFailException(said)

    def _compare(self, now: Any, day: Day, differing: list[str], broken: list[str]) -> None:
        from sluice.metrics import load_team
        from sluice.quality.reconcile import ReconciliationFailed, reconcile

        load_team()
        try:
            outcome = reconcile(now, day["topic"], date.fromisoformat(day["day"]), day["cut"])
            self.log.info("%s: %s, %s", name(day), outcome.outcome, outcome.message)
            outcome.check()
            alert(now, day, "")
        except ReconciliationFailed as failure:
            differing.append(f"{name(day)}: {failure}")
            alert(now, day, str(failure))
        except Exception as error:
            self.log.exception("%s could not be compared", name(day))
            broken.append(f"{name(day)}: {type(error).__name__}: {error}")


def name(day: Day) -> str:
    return f"{day['topic']} {day['day']}"


def alert(settings: Any, day: Day, message: str) -> None:
    """Raise the day's alert, or clear it where there is nothing to say."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables import alerts

    alerts.sync(engine(settings), "reconcile", {name(day): message} if message else {}, prefix=name(day))


def alert_open_periods(settings: Any) -> None:
    """Raise an alert for each topic with periods that should have been compared by now; clear the others."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables import alerts, open_periods

    late = open_periods.overdue(engine(settings), datetime.now(UTC) - OVERDUE)
    alerts.sync(engine(settings), "open_periods", {each.topic: f"{each.topic}: {each}" for each in late})


def newest(days: Iterable[Day]) -> list[Day]:
    """Each day once, as the last event has it: an earlier cut of the day is no longer in Hive."""
    last = {(day["topic"], day["day"]): day for day in days}
    return [last[key] for key in sorted(last)]


def not_passed(settings: Any, days: list[Day]) -> list[Day]:
    """Those days whose cut the speed layer has not passed, or that have periods being counted again."""
    from sluice.quality.reconcile import speed_passed

    return [
        day
        for day in days
        if not speed_passed(settings, day["topic"], date.fromisoformat(day["day"]), day["cut"])
    ]


def is_final(settings: Any, day: Day) -> bool:
    """Whether the day is published as it was computed last, up to this very cut."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables.days import Days

    found = Days(engine(settings), day["topic"]).get(date.fromisoformat(day["day"]))
    return found is not None and found.cut == day["cut"] and found.is_final


def waiting(settings: Any) -> list[Day]:
    """The days that are not published, except those known to differ, which wait for a person."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables import alerts

    differing = {each.name for each in alerts.open_alerts(engine(settings), "reconcile")}
    return [day for day in unpublished(settings, {}) if name(day) not in differing]


def unpublished(settings: Any, conf: dict[str, Any]) -> list[Day]:
    """The days that a run's configuration names, as last computed; else all unpublished days."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables import days

    wanted = run_configuration.days(conf)
    found = days.unpublished(engine(settings), wanted or None)
    return [{"topic": each.topic, "day": each.day.isoformat(), "cut": each.cut} for each in found]
