"""Counting again from the archive: the form at a task and at a topic, and the list of what goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, NamedTuple

import sqlalchemy as sa
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from sluice.batch.backfill.ask import BadDays
from sluice.batch.rebuild.ask import NothingCountable, RebuildPlan, WantedRebuild, ask, plan
from sluice.batch.rebuild.scope import NothingToRebuild
from sluice.runtime.settings import Settings
from sluice.storage.tables.rebuilds import Rebuild
from sluice.storage.tables.recounts import Recount
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore
from sluice.tasks.versions import Task
from sluice_airflow.api.rebuilds import listed
from sluice_airflow.api.security import Reader, Writer
from sluice_airflow.api.stores import Database, Instance, Tasks, Topics
from sluice_airflow.console.day_work import DaysForm, DayWork, NoDays
from sluice_airflow.console.forms import Form, Given
from sluice_airflow.console.page import HEADERS, lead_to, page, render
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)

#: What a page says after a rebuild was asked for.
DONE = {
    "rebuild": "The rebuild was asked for; how far it is stands below.",
    "part": "The rebuild was asked for. It leaves out periods of which retention deleted lines from the "
    "archive: “What would be counted” says how many.",
}
#: Names of tasks that a rebuild shows.
NAMED = 3


class RebuildForm(NamedTuple):
    """A form as it was filled in, and what came of it. did: a key of DONE."""

    days: DaysForm = DaysForm()
    plan: RebuildPlan | None = None
    did: str = ""

    @property
    def code(self) -> int:
        return HTTPStatus.UNPROCESSABLE_ENTITY if self.days.wrong else HTTPStatus.OK


class AsidePeriod(NamedTuple):
    """A period that damage set aside."""

    name: str
    starts: datetime
    of: Recount


class CountedAgain(NamedTuple):
    """The rebuilds of a topic or of a task, the newest first, and what damage set aside."""

    rebuilds: Sequence[DayWork]
    aside: Sequence[AsidePeriod]
    more: bool  # periods than these

    @property
    def goes_on(self) -> bool:
        """Whether what was set aside is counted again by itself."""
        return any(not each.of.expired for each in self.aside)


def sent(
    settings: Settings,
    database: sa.Engine,
    user: BaseUser,
    given: Form,
    *,
    topic: str,
    task: str | None = None,
) -> RebuildForm:
    """Do what the form says: ask for a rebuild of a topic or of one of its tasks, or plan it."""
    days = DaysForm.of(given)
    try:
        wanted = WantedRebuild(topic, task, *days.parsed)
        if given.get("do") == "ask":
            left_out = ask(database, wanted, user.get_name()).left_out
            return RebuildForm(days, did="part" if left_out else "rebuild")
        return RebuildForm(days, plan(settings, database, wanted))
    except BadDays as error:
        wrong = error.plain
    except (NoDays, NothingToRebuild, NothingCountable) as error:
        wrong = str(error)
    return RebuildForm(days._replace(wrong=wrong))


def counted_again(database: sa.Engine, topic: str, task: Task | None = None) -> CountedAgain:
    """What is being counted again, or was, of a topic, or of one of its tasks."""
    names = {each.task_id: each.name for each in TaskStore(database).list(topic)}
    found = listed(database, topic, None if task is None else task.task_id)
    aside = [
        AsidePeriod(_name(names, each.task_id), datetime.fromtimestamp(each.period_start / 1000, UTC), each)
        for each in found.aside
    ]
    return CountedAgain(
        [DayWork.of_rebuild(each, _what(each, names)) for each in found.rebuilds], aside, found.more
    )


@router.get("/topics/{name}/rebuilds")
def topic_rebuilds(
    request: Request,
    user: Reader,
    database: Database,
    topics: Topics,
    name: str,
    *,
    did: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """The page of a topic's rebuilds."""
    return _shown(request, user, database, topics, name, said=DONE.get(did, ""))


@router.post("/topics/{name}/rebuilds")
def count_again(
    request: Request,
    user: Writer,
    settings: Instance,
    database: Database,
    topics: Topics,
    *,
    given: Given,
    name: str,
) -> Response:
    """Count all tasks of the topic again, or say what that would do."""
    topics.require(name)
    form = sent(settings, database, user, given, topic=name)
    if form.did:
        return lead_to(request, f"/topics/{name}/rebuilds?did={form.did}")
    return _shown(request, user, database, topics, name, form=form)


@router.get("/topics/parts/rebuilds/{name}")
def part(
    request: Request,
    user: Reader,
    database: Database,
    tasks: Tasks,
    name: str,
    *,
    task: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """The list of a topic, or of one of its tasks, as a part of a page."""
    found = counted_again(database, name, tasks.get(task) if task else None)
    return HTMLResponse(render(request, "rebuilds.html", user, again=found), headers=HEADERS)


def _shown(
    request: Request,
    user: BaseUser,
    database: sa.Engine,
    topics: TopicStore,
    name: str,
    *,
    said: str = "",
    form: RebuildForm = RebuildForm(),  # noqa: B008 - it cannot be changed
) -> Response:
    topics.require(name)
    return page(
        request,
        "topic_rebuilds.html",
        user,
        form.code,
        here="platform",
        title=f"Count {name} again",
        name=name,
        said=said,
        again_form=form,
        again=counted_again(database, name),
    )


def _what(rebuild: Rebuild, names: Mapping[int, str]) -> str:
    """What a rebuild counts, in words."""
    if rebuild.versions is None:
        return "what damage set aside"
    own = rebuild.task_ids
    more = f" and {len(own) - NAMED} more" if len(own) > NAMED else ""
    return ", ".join(_name(names, each) for each in own[:NAMED]) + more


def _name(names: Mapping[int, str], task_id: int) -> str:
    return names.get(task_id, f"task {task_id}, deleted")
