"""Dead letters: lines that no task counts, by reason and time, and what was tried with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response, status

from sluice.letters.explanation import tried
from sluice.runtime.days import today
from sluice.storage.tables.dead_letters import MOST, DeadLetter, by_reason, newest
from sluice_airflow.api.security import Reader, may
from sluice_airflow.api.stores import Database, Tasks, Topics
from sluice_airflow.console.days import AskedDay
from sluice_airflow.console.page import page
from sluice_airflow.console.route import PageRoute
from sluice_airflow.console.skipped import by_task, skipped

router = APIRouter(route_class=PageRoute)

#: Days that the table shows, and samples below it.
DAYS, SAMPLES = 14, 20
#: Characters of a line.
SHOWN = 400


@router.get("/dead")
def dead(
    request: Request,
    user: Reader,
    database: Database,
    topics: Topics,
    tasks: Tasks,
    *,
    topic: Annotated[str, Query(max_length=200)] = "",
    reason: Annotated[str, Query(max_length=200)] = "",
    day: AskedDay | None = None,
) -> Response:
    """The table of a topic, samples of a reason and a day, and what tasks skip; readers see no lines."""
    names = topics.names()
    topic = topic or names[0]
    if topic not in names:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"no task reads a topic {topic!r}")
    last = today()
    days = [last - timedelta(days=n) for n in range(DAYS - 1, -1, -1)]
    since = datetime(days[0].year, days[0].month, days[0].day, tzinfo=UTC)
    spec = topics.get(topic)
    counts = by_reason(database, topic, since)
    lately = since if reason and day is None else None
    samples = newest(database, topic, reason=reason, day=day, since=lately, limit=SAMPLES)
    return page(
        request,
        "dead.html",
        user,
        here="dead",
        title="Dead letters",
        topic=topic,
        topics=names,
        reason=reason,
        day=day,
        days=days,
        counts=counts,
        most=MOST if sum(sum(by_day.values()) for by_day in counts.values()) >= MOST else 0,
        letters=[(each, tried(each, spec), shown(each)) for each in samples],
        skipped=skipped(database, topic),
        by_task=by_task(database, topic, tasks.list(topic)),
        may_see=may("PUT", user),
    )


def shown(letter: DeadLetter) -> str:
    """The beginning of the line, as text."""
    return letter.line.decode(errors="replace").replace("\0", "\ufffd")[:SHOWN]
