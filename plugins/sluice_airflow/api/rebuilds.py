"""Rebuilds: what is counted again from the archive, what damage set aside, and how to ask for more."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Annotated, Any, NamedTuple

import sqlalchemy as sa
from fastapi import APIRouter, Query, status
from pydantic import BaseModel, ConfigDict, Field

from sluice.batch.backfill.ask import BadDays
from sluice.batch.rebuild.ask import WantedRebuild, ask, plan
from sluice.storage.tables.rebuilds import Rebuild, Rebuilds, RebuildState
from sluice.storage.tables.recounts import Recount, Recounts
from sluice.tasks import Problem, TasksRefused
from sluice_airflow.api.security import Reader, UnhurriedReader, Writer
from sluice_airflow.api.stores import Database, Instance, Tasks, Topics

router = APIRouter(prefix="/topics/{name}/rebuilds", tags=["rebuilds"])

#: Rebuilds and periods of a list, the newest rebuilds first; rebuilds among which those of a task are found.
SHOWN, SEARCHED = 50, 200


class RebuildIn(BaseModel):
    """What is to be counted again: every period that touches one of the days, as a whole."""

    model_config = ConfigDict(extra="forbid")

    task: str | None = Field(None, description="Only this task, all its versions; null: all of the topic.")
    first: date | None = Field(
        None, alias="from", description="The first day of event time (UTC); null: no limit."
    )
    last: date | None = Field(None, alias="to", description="The last day, included; null: no limit.")


class RebuildOut(BaseModel):
    """A rebuild, and how far it is."""

    id: int
    versions: list[str] | None = Field(
        description="Task versions, such as 7v1; null: what damage had set aside."
    )
    first: date | None = Field(serialization_alias="from")
    last: date | None = Field(serialization_alias="to")
    state: RebuildState = Field(
        description="requested: the DAG rebuild has not begun it. counting: it counts day by day. switched: "
        "readers have what it counted, and it writes the results. finished."
    )
    days: int = Field(description="Days that it counts; 0 until it has begun.")
    done_days: int
    lines: int = Field(description="Lines of the days that are done.")
    progress: str = Field(description="How far it is, or what it waits for, in words.")
    error: str = Field(description="Why its last try ended badly; it is tried again. Empty if it did not.")
    by: str = Field(description="Who asked; `sluice` for the platform itself.")
    asked_at: datetime
    finished_at: datetime | None

    @classmethod
    def of(cls, each: Rebuild) -> RebuildOut:
        own = each.versions
        labels = None if own is None else [f"{task}v{number}" for task, number in own]
        return cls(
            id=each.id,
            versions=labels,
            first=each.first_day,
            last=each.last_day,
            state=each.state,
            days=len(each.days),
            done_days=len(each.done_days),
            lines=each.lines,
            progress=each.progress,
            error=each.failure,
            by=each.requested_by,
            asked_at=each.requested_at,
            finished_at=each.finished_at,
        )


class SetAsideOut(BaseModel):
    """A period that damage set aside: nobody reads it until it is counted again."""

    version: str = Field(description="The task version, such as 7v1.")
    period: datetime = Field(description="When it begins.")
    why: str
    since: datetime
    rebuild: int | None = Field(description="The rebuild that counts it again; null: none yet.")
    expired: bool = Field(
        description="It cannot be counted again: retention deleted lines of it from the archive."
    )

    @classmethod
    def of(cls, each: Recount) -> SetAsideOut:
        return cls(
            version=f"{each.task_id}v{each.version}",
            period=datetime.fromtimestamp(each.period_start / 1000, UTC),
            why=each.why or "",
            since=each.since,
            rebuild=each.rebuild_id,
            expired=each.expired,
        )


class RebuildsOut(BaseModel):
    """What is counted again of a topic, and what damage set aside; at most 50 of each."""

    rebuilds: list[RebuildOut] = Field(description="The newest first.")
    set_aside: list[SetAsideOut]
    more: bool = Field(description="Whether more periods are set aside than these.")


class RebuildAskedOut(BaseModel):
    """A rebuild that was asked for."""

    rebuild: RebuildOut
    left_out: str = Field(description="What is said of periods that cannot be counted again; mostly empty.")


class PlannedTaskOut(BaseModel, from_attributes=True):
    """A task version with periods that would be counted."""

    name: str
    version: str = Field(validation_alias="label")
    periods: int


class PlannedDayOut(BaseModel):
    """What a day would read of the archive."""

    day: date
    files: int
    lines: int = Field(description="Of the day, doubles included.")
    bytes: int = Field(description="Of these files; one may have lines of other days, too.")


class RebuildPlanOut(BaseModel):
    """What a rebuild would do now."""

    tasks: list[PlannedTaskOut]
    days: list[PlannedDayOut]
    periods: int
    lines: int
    left_out: str = Field(description="What is said of periods that cannot be counted again; mostly empty.")


class RebuildList(NamedTuple):
    """The newest rebuilds first, and what damage set aside. more: there are more such periods."""

    rebuilds: list[Rebuild]
    aside: list[Recount]
    more: bool


_REBUILD = {
    "id": 4,
    "versions": ["7v1"],
    "from": "2015-05-17",
    "to": "2015-05-20",
    "state": "counting",
    "days": 4,
    "done_days": 1,
    "lines": 120_311,
    "progress": "counting: 1 of 4 days, 120,311 lines",
    "error": "",
    "by": "ann",
    "asked_at": "2015-06-01T10:05:03Z",
    "finished_at": None,
}
_ASIDE = {
    "version": "7v1",
    "period": "2015-05-17T10:05:00Z",
    "why": "block 7v1/1431857100000/1/0 of the state is not in HBase",
    "since": "2015-06-01T10:05:03Z",
    "rebuild": 3,
    "expired": False,
}
_PLAN = {
    "tasks": [{"name": "hits_by_status", "version": "7v1", "periods": 1_440}],
    "days": [{"day": "2015-05-17", "files": 3, "lines": 120_311, "bytes": 9_437_184}],
    "periods": 1_440,
    "lines": 120_311,
    "left_out": "",
}
_Responses = dict[int | str, dict[str, Any]]
_REFUSED: _Responses = {
    404: {"description": "There is no such topic or task, or it has no state of these days."},
    409: {"description": "Retention deleted lines of all these periods from the archive."},
}
_LISTED: _Responses = {
    200: {
        "content": {
            "application/json": {"example": {"rebuilds": [_REBUILD], "set_aside": [_ASIDE], "more": False}}
        }
    },
    404: {"description": "There is no such topic or task."},
}
_ASKED: _Responses = {
    201: {"content": {"application/json": {"example": {"rebuild": _REBUILD, "left_out": ""}}}},
    **_REFUSED,
}
_PLANNED: _Responses = {200: {"content": {"application/json": {"example": _PLAN}}}, **_REFUSED}
OnlyTask = Annotated[str | None, Query(max_length=200, description="Only this task, all its versions.")]
FromDay = Annotated[date | None, Query(alias="from", description="The first day of event time (UTC).")]
ToDay = Annotated[date | None, Query(alias="to", description="The last day, included.")]


def listed(database: sa.Engine, topic: str, task_id: int | None = None) -> RebuildList:
    """What is counted again of a topic, or of one of its tasks."""
    aside = Recounts(database, topic).damaged(SHOWN + 1, task_id)
    found = Rebuilds(database).newest(topic, SHOWN if task_id is None else SEARCHED)
    if task_id is not None:
        own = {each.rebuild_id for each in aside}
        found = [each for each in found if each.id in own or task_id in each.task_ids]
    return RebuildList(found[:SHOWN], aside[:SHOWN], len(aside) > SHOWN)


@router.get("", responses=_LISTED)
def list_rebuilds(
    name: str, user: Reader, database: Database, *, topics: Topics, tasks: Tasks, task: OnlyTask = None
) -> RebuildsOut:
    """The newest rebuilds of the topic, how far they are, and what damage set aside."""
    topics.require(name)
    found = listed(database, name, None if task is None else tasks.get(task).task_id)
    return RebuildsOut(
        rebuilds=[RebuildOut.of(each) for each in found.rebuilds],
        set_aside=[SetAsideOut.of(each) for each in found.aside],
        more=found.more,
    )


@router.post("", status_code=status.HTTP_201_CREATED, responses=_ASKED)
def ask_for_rebuild(
    name: str, user: Writer, database: Database, topics: Topics, wanted: RebuildIn
) -> RebuildAskedOut:
    """Count periods again from the archive. The same rebuild, if it has not begun, is not asked for twice."""
    topics.require(name)
    try:
        asked = ask(database, WantedRebuild(name, wanted.task, wanted.first, wanted.last), user.get_name())
    except BadDays as error:
        raise TasksRefused([Problem("/from", error.plain)]) from None
    return RebuildAskedOut(rebuild=RebuildOut.of(asked.rebuild), left_out=asked.left_out)


@router.get("/plan", responses=_PLANNED)
def plan_rebuild(
    name: str,
    user: UnhurriedReader,
    settings: Instance,
    database: Database,
    *,
    topics: Topics,
    task: OnlyTask = None,
    first: FromDay = None,
    last: ToDay = None,
) -> RebuildPlanOut:
    """What a rebuild would do now: tasks, days, files and lines. Nothing is changed."""
    topics.require(name)
    try:
        found = plan(settings, database, WantedRebuild(name, task, first, last))
    except BadDays as error:
        raise TasksRefused([Problem("/from", error.plain)]) from None
    return RebuildPlanOut(
        tasks=[PlannedTaskOut.model_validate(each) for each in found.tasks],
        days=[PlannedDayOut.model_validate(asdict(each)) for each in found.days],
        periods=found.periods,
        lines=found.lines,
        left_out=found.left_out,
    )
