"""The API's JSON; the tasks and topics that it takes are the specs of `sluice.tasks`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from sluice.engine.trial import MAX_LINES, LineTrial
from sluice.results.rows import PeriodState
from sluice.storage.tables.speed_topics import TopicOwner
from sluice.tasks import TopicSpec
from sluice.tasks.changes import ChangeAction
from sluice.tasks.store import Task
from sluice.tasks.topics import Topic
from sluice.tasks.versions import TaskState


class TaskOut(BaseModel):
    """A task as it stands."""

    id: int
    version: int
    name: str
    topic: str
    description: str | None
    period: str
    timezone: str
    dimensions: list[str]
    metrics: list[str]
    state: TaskState
    error: str | None = Field(description="Why a failed task is not counted.")
    failed_at: datetime | None
    since: datetime = Field(description="When this version was made.")
    by: str
    lists: dict[str, int] = Field(description="The value lists that it uses, and their versions.")
    task: dict[str, Any] = Field(description="The task as it was given: what PUT takes.")

    @classmethod
    def of(cls, task: Task) -> TaskOut:
        return cls(
            id=task.task_id,
            version=task.version,
            name=task.name,
            topic=task.topic,
            description=task.spec.description,
            period=task.spec.period,
            timezone=task.spec.timezone,
            dimensions=[each.name for each in task.spec.dimensions],
            metrics=list(task.spec.metrics),
            state=task.state,
            error=task.error,
            failed_at=task.failed_at,
            since=task.created_at,
            by=task.created_by,
            lists=dict(task.sets),
            task=task.spec.document(),
        )


class ChangeOut(BaseModel):
    """What applying one task did."""

    name: str
    action: ChangeAction
    id: int = Field(validation_alias="task_id")
    version: int
    state: TaskState


class DiffOut(BaseModel):
    """What applying one task would do."""

    name: str
    action: ChangeAction
    fields: tuple[str, ...]
    diff: str = Field(validation_alias="text", description="A unified diff of the task's YAML.")


class HistoryOut(BaseModel):
    """One thing that happened to a task."""

    id: int = Field(validation_alias="task_id")
    version: int
    action: str
    at: datetime
    by: str
    detail: str


class TrialIn(BaseModel):
    """The lines to try a task on: given ones, else the newest of its topic."""

    lines: list[str] | None = Field(None, max_length=MAX_LINES)
    sample: int = Field(10, ge=1, le=MAX_LINES)


class NewTrialIn(TrialIn):
    """The same for a task that is not applied."""

    task: dict[str, Any]


class TrialOut(BaseModel):
    """What a task makes of lines."""

    lines: list[LineTrial]
    error: str | None = Field(description="Why the task would be set aside on these lines.")


class ListIn(BaseModel):
    """A value list's values."""

    values: Any = Field(description="A list of texts.", json_schema_extra={"type": "array"})


class ListOut(BaseModel):
    """A value list as it stands."""

    name: str
    version: int
    values: tuple[str, ...]
    since: datetime = Field(validation_alias="created_at")
    by: str = Field(validation_alias="created_by")
    tasks: tuple[str, ...] = Field(description="The tasks that use it.")


class ListChangeOut(BaseModel):
    """What applying one list did, to itself and to the tasks that use it."""

    name: str
    action: ChangeAction
    version: int
    tasks: tuple[ChangeOut, ...]


class TopicOut(BaseModel):
    """What a topic's lines look like; `by` is null where nobody described it.

    `driver` and `owner` are null where one driver counts all topics.
    """

    topic: TopicSpec
    tasks: int
    since: datetime | None
    by: str | None
    driver: str | None = Field(description="The driver of the speed layer that should count it.")
    owner: str | None = Field(description="The driver that counts it; another one while the topic moves.")

    @classmethod
    def of(cls, topic: Topic, place: TopicOwner | None) -> TopicOut:
        return cls(
            topic=topic.spec,
            tasks=topic.tasks,
            since=topic.created_at,
            by=topic.created_by,
            driver=None if place is None else place.driver,
            owner=None if place is None else place.owner,
        )


class ProblemOut(BaseModel):
    """One thing that is wrong with a request's body."""

    pointer: str = Field(description="A JSON pointer into the body.")
    message: str


class Problems(BaseModel):
    """Why a body is refused."""

    problems: list[ProblemOut]


class ResultTaskOut(BaseModel):
    """The task whose results these are."""

    name: str
    id: int
    version: int
    period: str
    timezone: str


class ColumnOut(BaseModel):
    """A column of the rows; an error's is named after its metric: p95_error."""

    name: str
    kind: Literal["period", "dimension", "metric", "error", "state"]


class SpanOut(BaseModel):
    """Periods that follow each other and come from the same place."""

    first: datetime = Field(description="The start of the first of them.")
    last: datetime = Field(description="The start of the last of them.")
    periods: int = Field(description="How many they are, of those with rows, or being counted again.")
    state: PeriodState = Field(
        description="final: published. superseded: published, and to be computed again. open: counted so "
        "far. recounting: being counted again from the archive, and without rows until then; a roll-up with "
        "such a period lacks its lines."
    )
    commit: int | None = Field(None, description="The speed layer's commit that open periods are as of.")
    run_id: str | None = Field(None, description="The nightly run that computed the others.")


class ResultsOut(BaseModel):
    """A task's results."""

    task: ResultTaskOut
    columns: list[ColumnOut]
    rows: list[dict[str, str | int | float | list[Any] | None]] = Field(
        description="A dimension is null in the row of the rest of a top list."
    )
    periods: list[SpanOut] = Field(
        description="Where the rows come from: the task's own periods, from those of the first row to those "
        "of the last; if the rows are sorted, all that passed the conditions."
    )
    next: str | None = Field(description="The address of the next page, or null if these are all rows.")
