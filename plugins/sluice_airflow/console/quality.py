"""Quality: whether the two layers agree, a calendar of days by task, and each day's comparisons."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, NamedTuple

import sqlalchemy as sa
from fastapi import APIRouter, HTTPException, Query, Request, Response, status

from sluice.results.agreement import how
from sluice.runtime.days import is_over, today
from sluice.stack.airflow.answers import AirflowError
from sluice.storage.tables import history, reconciled
from sluice.storage.tables.calendar import STATES, CalendarState, DayState, days_of
from sluice.storage.tables.days import Days
from sluice.storage.tables.reconciled import DayCompared
from sluice.tasks.topics import TopicStore
from sluice.tasks.versions import Task
from sluice_airflow.api.security import Reader, Writer
from sluice_airflow.api.stores import Database, Instance, Tasks, Topics
from sluice_airflow.console.days import FIRST_DAY, LAST_DAY, AskedDay
from sluice_airflow.console.forms import Given
from sluice_airflow.console.page import lead_to, page
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)

NIGHTLY = "nightly_batch"
#: Tasks in the calendar; the search narrows them.
MOST_TASKS = 60
#: How each state is drawn, so that it is told without its colour.
SIGNS = {
    CalendarState.AGREES: "✓",
    CalendarState.DIFFERS: "≠",
    CalendarState.SUPERSEDED: "↻",
    CalendarState.OPEN: "…",
    CalendarState.NOT_COMPUTED: "○",
    CalendarState.DROPPED: "–",
    CalendarState.NONE: "",
}
TopicName = Annotated[str, Query(max_length=200)]


class MonthRow(NamedTuple):
    """A task's days of a month, by day of the month; empty where there is nothing."""

    task: Task
    states: Sequence[str]


@router.get("/quality")
def quality(
    request: Request,
    user: Reader,
    tasks: Tasks,
    database: Database,
    *,
    topic: TopicName = "",
    month: Annotated[str, Query(max_length=7)] = "",
    q: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """The calendar of a topic's month."""
    names = TopicStore(database).names()
    topic = topic or names[0]
    first = _month(month) or _newest(database, topic)
    last = first.replace(day=calendar.monthrange(first.year, first.month)[1])
    days = {each.day.day: each for each in days_of(database, topic, first, last)}
    found = [task for task in tasks.list(topic) if q.lower() in task.name]
    numbers = range(1, last.day + 1)
    return page(
        request,
        "quality.html",
        user,
        here="quality",
        title="Quality",
        topic=topic,
        topics=names,
        q=q,
        first=first,
        before=(first - timedelta(days=1)).strftime("%Y-%m"),
        after=(last + timedelta(days=1)).strftime("%Y-%m"),
        numbers=numbers,
        days=days,
        rows=[MonthRow(task, _states(task, days, numbers)) for task in found[:MOST_TASKS]],
        more=len(found[MOST_TASKS:]),
        signs=SIGNS,
        meanings=STATES,
    )


@router.get("/quality/day")
def day_page(
    request: Request,
    user: Reader,
    database: Database,
    *,
    topic: TopicName,
    day: AskedDay,
    run: Annotated[datetime | None, Query()] = None,
    did: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """One day: its state, the newest comparison or the one of that time, and the earlier ones."""
    found = days_of(database, topic, day, day)
    runs = reconciled.of_day(database, topic, day)
    chosen = next((each for each in runs if run is not None and _utc(each.run_at) == _utc(run)), None)
    if run is not None and chosen is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no comparison of that time")
    shown = chosen or (runs[0] if runs else None)
    return page(
        request,
        "day.html",
        user,
        here="quality",
        title=f"{topic}, {day}",
        topic=topic,
        day=day,
        found=found[0] if found else DayState(day, CalendarState.NONE, 0, "", None, None),
        runs=runs,
        shown=shown,
        differences=_differences(shown),
        signs=SIGNS,
        meanings=STATES,
        over=is_over(day, today()),
        said="The nightly run of this day was started; the comparison follows it." if did else "",
    )


@router.post("/quality/day")
def compute_again(
    request: Request, user: Writer, settings: Instance, *, database: Database, topics: Topics, given: Given
) -> Response:
    """Let the nightly run compute the day again; `reconcile` then compares it."""
    from sluice.stack.airflow.rest_api import Airflow

    topic = given.get("topic")
    try:
        day = date.fromisoformat(given.get("day"))
    except ValueError:
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, "day: write it like 2015-05-17") from None
    if topic not in topics.names():
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"no task reads a topic {topic!r}")
    if not is_over(day, today()):
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, f"{day} is not over: wait for its night")
    try:
        with Airflow(settings, user.get_name()) as airflow:
            airflow.trigger(NIGHTLY, {"day": day.isoformat(), "topics": [topic]})
    except AirflowError as error:
        raise HTTPException(
            status.HTTP_503_SERVICE_UNAVAILABLE, f"Airflow did not start {NIGHTLY}: {error}"
        ) from None
    with database.begin() as connection:
        history.record(
            connection, who=user.get_name(), what="days", name=str(day), action="computed again", after=topic
        )
    return lead_to(request, f"/quality/day?topic={topic}&day={day}&did=asked")


def _states(task: Task, days: dict[int, DayState], numbers: Sequence[int]) -> list[str]:
    versions = [(task.task_id, version) for version in range(1, task.version + 1)]
    return [days[n].of_task(task.name, versions) if n in days else "none" for n in numbers]


def _differences(shown: DayCompared | None) -> list[dict[str, object]]:
    """The differences that are named, each with what its metric allows."""
    if shown is None:
        return []
    return [{**each, "allowed": how(each["metric"])} for each in shown.details.get("differences", ())]


def _month(text: str) -> date | None:
    """The first day of a month; None for what is no month."""
    try:
        first = date.fromisoformat(f"{text}-01")
    except ValueError:
        return None
    if not FIRST_DAY <= first <= LAST_DAY:
        said = f"month: {text} is beyond all months: write one from {FIRST_DAY:%Y-%m} to {LAST_DAY:%Y-%m}"
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, said)
    return first


def _newest(database: sa.Engine, topic: str) -> date:
    days = Days(database, topic).with_lines()
    return (days[-1] if days else today()).replace(day=1)


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
