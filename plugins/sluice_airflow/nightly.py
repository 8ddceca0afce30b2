"""The nightly Spark job of one day, and the event that says which days it computed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import Asset, Param
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.utils.types import DagRunType

from sluice.runtime.settings import Settings
from sluice_airflow import run_configuration
from sluice_airflow.connections import settings
from sluice_airflow.spark_job import SparkJob

#: What the form of a run by hand asks for; the run's configuration has the same names.
NIGHT = {
    "day": Param(
        None,
        type=["null", "string"],
        format="date",
        title="Day",
        description="The day of event time (UTC) to compute. Empty: yesterday, or a backfill's own days.",
    ),
    "topics": Param(
        None,
        type=["null", "array"],
        items={"type": "string"},
        title="Topics",
        description="The topics to compute, one a line. Empty: all.",
    ),
}
#: Under this key of XCom `batch` says that a topic failed.
FAILURE = "failure"


class NightlyBatch(SparkJob):
    """Compute the day on which the run's data interval starts, for each topic with lines of it.

    A scheduled run first waits ``wait`` after the day's end, in the triggerer, for the last lines to be
    archived. All runs except those of a backfill also compute the marked days again. Scheduled runs also
    compute the days of the last month that no night computed, because their lines came too late for it or the
    platform was down. A topic with none of these days costs no Spark job; a run without any such topic is
    skipped. A run by hand may name another day and other topics in its configuration:
    ``{"day": "2015-05-17", "topics": ["logs"]}``.

    A topic that fails is tried again with all others. If it fails the last time too, the event still has the
    days of the others, and `every_topic` fails.

    The asset's event carries ``{"days": [{"topic", "day", "cut", "raw_lines", "lines"}, ...]}``.
    """

    def __init__(self, *, asset: Asset, wait: timedelta, **kwargs: Any) -> None:
        super().__init__(outlets=[asset], **kwargs)
        self.asset, self.wait = asset, wait

    def execute(self, context: Any) -> None:
        if context["dag_run"].run_type == DagRunType.SCHEDULED:
            due = context["data_interval_end"] + self.wait
            if due > datetime.now(UTC):
                self.defer(trigger=DateTimeTrigger(due), method_name="compute")
        self.compute(context)

    def compute(self, context: Any, event: Any = None) -> None:
        run, day, now = context["dag_run"], day_of(context), settings()
        marked, missed = run.run_type != DagRunType.BACKFILL_JOB, run.run_type == DagRunType.SCHEDULED
        topics = topics_to_compute(now, run_configuration.topics(run.conf or {}), day, marked, missed)
        if not topics:
            self.log.info("nothing to do: no line of %s is archived, no other day waits", day)
            raise AirflowSkipException
        arguments = [f"--topic={topic}" for topic in topics]  # a topic's name may begin with a hyphen
        arguments += ["--day", day.isoformat(), "--run-id", run.run_id, *(["--marked"] if marked else [])]
        arguments += ["--missed"] if missed else []
        failure: AirflowException | None = None
        try:
            self.submit(context, now, str(day), arguments)
        except AirflowException as error:
            failure = error
        days = [each for topic in topics for each in computed(now, topic, run.run_id)]
        if failure is not None:
            if not days or context["ti"].try_number <= context["ti"].max_tries:
                raise failure
            self.log.error("some topic failed, its trace is above; the others go on to reconciliation")
            context["ti"].xcom_push(FAILURE, str(failure))
        self.log.info("computed: %s", ", ".join(f"{each['topic']} {each['day']}" for each in days))
        context["outlet_events"][self.asset].extra = {"days": days}


def every_topic(ti: Any) -> None:
    """Fail if a topic failed.

    `batch` itself has to end well, or the event with the other topics' days would not be sent.
    """
    if failure := ti.xcom_pull(task_ids="batch", key=FAILURE):
        raise AirflowFailException(f"some topic was not computed: see the log of task `batch`. {failure}")


def day_of(context: Any) -> date:
    """The day that a run is about; for a run by hand without a date, yesterday."""
    if named := run_configuration.day(context["dag_run"].conf or {}):
        return named
    start = context.get("data_interval_start")
    return start.date() if start else (datetime.now(UTC) - timedelta(days=1)).date()


def topics_to_compute(
    settings: Settings, topics: Sequence[str] | None, day: date, marked: bool, missed: bool
) -> list[str]:
    """Those of the topics (None: of all topics) that have something to compute.

    They have archived lines of this day (or had some that retention deleted: the night then says so) or, with
    ``marked``, days to compute again or, with ``missed``, days that no night computed.
    """
    from sluice.archive import index
    from sluice.storage.postgres import engine
    from sluice.storage.tables.days import Days
    from sluice.tasks.topics import TopicStore

    if topics is None:
        topics = TopicStore(engine(settings)).names()
    of_day = index.topics_with(settings, day)
    books = {each: Days(engine(settings), each) for each in topics}
    return [
        each
        for each, book in books.items()
        if each in of_day or day in book.expired() or (marked and book.marked()) or (missed and book.missed())
    ]


def computed(settings: Settings, topic: str, run_id: str) -> list[dict[str, Any]]:
    """The days that this run computed, as the event has them."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables.days import Days

    return [
        {
            "topic": topic,
            "day": day.day.isoformat(),
            "cut": day.cut,
            "raw_lines": day.raw_lines,
            "lines": day.lines,
        }
        for day in Days(engine(settings), topic).of_run(run_id)
    ]
