"""The list of statistics: each task with its state, how fresh it is, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request, Response

from sluice.runtime.settings import ROOT
from sluice.storage.tables import samples
from sluice.storage.tables.commit_progress import newest_commits
from sluice.tasks.first_tasks import advice, cut_at_blanks
from sluice.tasks.topics import TopicStore
from sluice.tasks.versions import Task
from sluice_airflow.api.security import Reader
from sluice_airflow.api.stores import Database, Tasks
from sluice_airflow.console.page import page
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)

#: Tasks on one page of the list.
PAGE = 50
#: A sample of figures that is older says nothing of now.
RECENT = timedelta(minutes=5)
SKIPPED = "sluice_task_skipped_lines_total"
Sort = Literal["name", "topic", "owner", "changed", "fresh"]
Shown = Literal["all", "active", "paused", "failed"]


class ListedTask(NamedTuple):
    """A task of the list."""

    task: Task
    commit: datetime | None  # of its topic, the newest one
    age: float | None  # of that, in seconds
    skipped: int | None  # lines without a measure since the speed layer started; None: not known


_KEYS: Mapping[Sort, Callable[[ListedTask], Any]] = {
    "name": lambda each: each.task.name,
    "topic": lambda each: (each.task.topic, each.task.name),
    "owner": lambda each: (each.task.created_by, each.task.name),
    "changed": lambda each: (-each.task.created_at.timestamp(), each.task.name),
    "fresh": lambda each: (each.age is None, each.age or 0.0, each.task.name),
}


@router.get("/statistics")
def statistics(
    request: Request,
    user: Reader,
    tasks: Tasks,
    database: Database,
    *,
    q: Annotated[str, Query(max_length=200)] = "",
    state: Shown = "all",
    sort: Sort = "name",
    at: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> Response:
    """The tasks that are asked for, a page at a time."""
    every = tasks.list()
    wanted = [each for each in every if _matches(each, q, state)]
    found = sorted(listed(database, wanted), key=_KEYS[sort])
    outdated = cut_at_blanks(tasks, TopicStore(database), ROOT)
    return page(
        request,
        "statistics.html",
        user,
        here="statistics",
        title="Statistics",
        rows=found[at : at + PAGE],
        count=len(found),
        every=len(every),
        asked={"q": q, "state": state, "sort": sort},
        at=at,
        step=PAGE,
        outdated=advice(outdated) if outdated else "",
    )


def listed(database: sa.Engine, tasks: list[Task]) -> list[ListedTask]:
    """The tasks with what the platform's books say of them."""
    now = datetime.now(UTC)
    commits = newest_commits(database, {task.topic for task in tasks})
    skipped = _skipped(database, now)
    made = []
    for task in tasks:
        commit = commits.get(task.topic)
        age = None if commit is None else max(0.0, (now - commit).total_seconds())
        made.append(ListedTask(task, commit, age, skipped.get((task.topic, task.name))))
    return made


def _matches(task: Task, text: str, state: Shown) -> bool:
    words = f"{task.name} {task.topic} {task.created_by}".lower()
    return state in ("all", task.state) and all(part in words for part in text.lower().split())


def _skipped(database: sa.Engine, now: datetime) -> dict[tuple[str, str], int]:
    found = samples.since(database, now - RECENT, SKIPPED)
    if not found:
        return {}
    _, values = found[-1]
    return {(labels["topic"], labels["task"]): int(value) for labels, value in values}
