"""The first page: what is wrong now, what is counted, and the newest numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, NamedTuple

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from sluice.results.newest import Newest, newest
from sluice.storage.tables.alerts import open_alerts
from sluice.tasks.versions import Task, TaskState
from sluice_airflow.api.security import Reader
from sluice_airflow.api.stores import Database, ReadPlaces, ResultLayers, Tasks
from sluice_airflow.console.cost import timed, told
from sluice_airflow.console.page import HEADERS, page, render
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)

#: Tasks whose newest numbers are shown.
MOST_TASKS = 24
#: Periods in a small line of the newest numbers.
PERIODS = 24
#: The size of that line's picture, in its own units.
_WIDTH, _HEIGHT = 120.0, 28.0


class FirstTrouble(NamedTuple):
    """Something that is wrong now."""

    what: str
    message: str
    since: datetime | None


class Figure(NamedTuple):
    """The newest number of a task, with a line of those before it."""

    metric: str
    value: float | int | None
    at: int  # ms since 1970
    state: str
    line: str  # the points of an SVG polyline; empty for fewer than two
    points: int
    least: float
    most: float


@router.get("/")
def first(request: Request, user: Reader, tasks: Tasks, database: Database) -> Response:
    """The first page."""
    found = tasks.list()
    return page(
        request,
        "first.html",
        user,
        here="first",
        title="Now",
        problems=troubles(database, found),
        tasks=found[:MOST_TASKS],
        more=len(found[MOST_TASKS:]),
    )


@router.get("/parts/newest")
async def newest_part(
    request: Request,
    user: Reader,
    layers: ResultLayers,
    places: ReadPlaces,
    *,
    task: Annotated[str, Query(max_length=200)],
) -> Response:
    """The newest number of a task, as a part of a page."""
    place = await places.place()
    try:
        found, seconds = await place.run(timed, partial(newest, layers, task, PERIODS))
    finally:
        place.leave()
    shown = None if found is None else figure(found)
    headers = HEADERS | told(seconds)
    return HTMLResponse(render(request, "newest.html", user, newest=shown), headers=headers)


def troubles(database: sa.Engine, tasks: Sequence[Task]) -> list[FirstTrouble]:
    """What is wrong now: tasks that failed, then the open alerts, oldest first."""
    failed = [
        FirstTrouble(f"The task {task.name} failed:", task.error or "it is not counted", task.failed_at)
        for task in tasks
        if task.state == TaskState.FAILED
    ]
    alerts = (FirstTrouble(f"{each.name}:", each.message, each.raised_at) for each in open_alerts(database))
    return [*failed, *alerts]


def figure(found: Newest) -> Figure:
    """The numbers with their line, which is scaled to the picture."""
    known = [
        (at, float(value)) for at, value in zip(found.starts, found.values, strict=True) if value is not None
    ]
    values = [value for _, value in known] or [0.0]
    least, most = min(values), max(values)
    begin, end = found.starts[0], found.starts[-1]
    line = " ".join(
        f"{_WIDTH * (at - begin) / max(end - begin, 1):.1f},{_height(value, least, most):.1f}"
        for at, value in known
    )
    shown = line if len(known) > 1 else ""
    return Figure(found.metric, found.values[-1], end, found.state, shown, len(known), least, most)


def _height(value: float, least: float, most: float) -> float:
    """Where a value is in the picture, from its top; equal values are in its middle."""
    return _HEIGHT * (1 - (value - least) / (most - least)) if most > least else _HEIGHT / 2
