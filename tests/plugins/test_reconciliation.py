"""Every event's days are reconciled even if others fail; a failure names its cause."""

from __future__ import annotations

from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tests.loops import run

DAYS = [{"topic": "logs", "day": f"2015-05-{n}", "cut": {"0": n}} for n in (17, 18, 19)]


@pytest.fixture
def module(home: Any, connected: Any, monkeypatch: pytest.MonkeyPatch):
    from sluice_airflow import reconciliation

    alerts: dict[str, str] = {}
    monkeypatch.setattr(reconciliation, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(  # no database here
        reconciliation, "alert", lambda settings, day, message: alerts.update({day["day"]: message})
    )
    monkeypatch.setattr(reconciliation, "alert_open_periods", lambda settings: None)
    monkeypatch.setattr(reconciliation, "waiting", lambda settings: reconciliation.left_behind)
    reconciliation.alerts_seen = alerts
    monkeypatch.setattr(reconciliation, "is_final", lambda settings, day: day in reconciliation.published)
    reconciliation.left_behind, reconciliation.published = [], []
    return reconciliation


class DifferingDay:
    """A reconciliation that finds a difference on one day and a dead store on another."""

    def __init__(self, differs: str = "", breaks: str = "") -> None:
        self.differs, self.breaks, self.asked = differs, breaks, []

    def __call__(self, settings: Any, topic: str, day: date, cut: dict[str, int]) -> Any:
        from sluice.quality.reconcile import ReconcileOutcome

        self.asked.append(str(day))
        if str(day) == self.breaks:
            raise ConnectionError("HBase is away")
        differs = str(day) == self.differs
        outcome = "differs" if differs else "agrees"
        message = "hits_by_status 2015-05-17T10:05 404 count: online 7, offline 8" if differs else "3 agree"
        return ReconcileOutcome(topic, day, datetime.now(UTC), cut, outcome, 3, int(differs), message)


def reconciler(module: Any, monkeypatch: pytest.MonkeyPatch, fault: DifferingDay, passed: bool = True) -> Any:
    from airflow.sdk import Asset

    from sluice.quality import reconcile

    monkeypatch.setattr(reconcile, "reconcile", fault)
    monkeypatch.setattr(reconcile, "speed_passed", lambda *_: passed)
    return module.Reconcile(task_id="t", asset=Asset(name="results", uri="sluice://results"))


def context(operator: Any, *events: list[dict]) -> Any:
    triggering = {operator.asset: [SimpleNamespace(extra={"days": days}) for days in events]}
    run, task = SimpleNamespace(conf={}), SimpleNamespace(try_number=1)
    return {"triggering_asset_events": triggering, "dag_run": run, "ti": task}


def test_all_days_of_all_events_are_reconciled_once(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = DifferingDay()
    operator = reconciler(module, monkeypatch, fault)
    operator.execute(context(operator, DAYS[:1], DAYS[:2], DAYS[2:]))
    assert fault.asked == ["2015-05-17", "2015-05-18", "2015-05-19"]
    assert module.alerts_seen == dict.fromkeys(fault.asked, "")


def test_a_day_whose_event_was_left_behind_is_reconciled_with_the_next(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = DifferingDay()
    module.left_behind = [DAYS[1], {**DAYS[0], "cut": {"0": 1}}]
    operator = reconciler(module, monkeypatch, fault)
    operator.execute(context(operator, DAYS[:1]))
    assert fault.asked == ["2015-05-17", "2015-05-18"]


def test_a_day_that_an_earlier_run_published_is_compared_again_only_when_the_run_is_cleared(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = DifferingDay()
    module.published = DAYS[:2]
    operator = reconciler(module, monkeypatch, fault)
    operator.execute(context(operator, DAYS[:1]))
    assert fault.asked == []
    operator.execute(context(operator, DAYS))
    assert fault.asked == ["2015-05-19"]
    cleared = context(operator, DAYS) | {"ti": SimpleNamespace(try_number=2)}
    operator.execute(cleared)
    assert fault.asked[1:] == [day["day"] for day in DAYS]


def test_later_event_of_a_day_replaces_the_earlier(module: Any) -> None:
    again = {**DAYS[0], "cut": {"0": 99}}
    assert module.newest([*DAYS, again]) == [again, *DAYS[1:]]


def test_difference_fails_for_good_and_names_itself_after_the_other_days(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    fault = DifferingDay(differs="2015-05-17")
    operator = reconciler(module, monkeypatch, fault)
    with pytest.raises(AirflowFailException, match=r"logs 2015-05-17: hits_by_status .* 404"):
        operator.execute(context(operator, DAYS))
    assert len(fault.asked) == 3
    assert [day for day, message in module.alerts_seen.items() if message] == ["2015-05-17"]


def test_dead_store_is_tried_again(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    fault = DifferingDay(breaks="2015-05-18")
    operator = reconciler(module, monkeypatch, fault)
    with pytest.raises(AirflowException, match="2015-05-18: ConnectionError: HBase is away") as error:
        operator.execute(context(operator, DAYS))
    assert not isinstance(error.value, AirflowFailException)
    assert len(fault.asked) == 3


def test_a_topic_that_stands_holds_up_only_itself(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

    from sluice.quality import reconcile

    fault = DifferingDay(differs="2015-05-17")
    operator = reconciler(module, monkeypatch, fault)
    standing = {18, 19}
    monkeypatch.setattr(reconcile, "speed_passed", lambda settings, topic, day, cut: cut["0"] not in standing)
    with pytest.raises(TaskDeferred) as first:
        operator.execute(context(operator, DAYS))
    assert fault.asked == ["2015-05-17"]
    path, kwargs = first.value.trigger.serialize()
    assert path == "sluice_airflow.reconciliation.SpeedPassedTrigger"
    assert kwargs == {"days": DAYS[1:]}

    answers = iter([ConnectionError("PostgreSQL restarts"), False, False, False, True])

    def speed_passed(*_: Any) -> bool:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(reconcile, "speed_passed", speed_passed)
    event = run(anext(module.SpeedPassedTrigger(**kwargs).run()))
    assert event.payload == {"status": "passed"}
    assert next(answers, None) is None

    standing.remove(19)
    monkeypatch.setattr(reconcile, "speed_passed", lambda settings, topic, day, cut: cut["0"] not in standing)
    with pytest.raises(TaskDeferred) as second:
        operator.compare({}, event.payload, **first.value.kwargs)
    assert fault.asked == ["2015-05-17", "2015-05-19"]
    standing.clear()
    with pytest.raises(AirflowFailException, match=r"logs 2015-05-17: hits_by_status .* 404"):
        operator.compare({}, event.payload, **second.value.kwargs)
    assert fault.asked == ["2015-05-17", "2015-05-19", "2015-05-18"]
