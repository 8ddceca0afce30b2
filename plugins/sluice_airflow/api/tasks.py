"""Tasks: what is counted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, Body, Header, HTTPException, Response, status

from sluice.engine.trial import failure, trial
from sluice.runtime.settings import get_settings
from sluice.speed.routed.report import GroupingReport, HotKeyReport, NothingCounted, reports
from sluice.tasks import Problem, TaskSpec, TasksRefused, parse_documents
from sluice.tasks.changes import ChangeAction
from sluice.tasks.store import Task, TaskStore
from sluice.transmission.sample import sample
from sluice_airflow.api.errors import below
from sluice_airflow.api.models import ChangeOut, DiffOut, HistoryOut, NewTrialIn, TaskOut, TrialIn, TrialOut
from sluice_airflow.api.security import Reader, UnhurriedReader, Writer, may
from sluice_airflow.api.stores import Progress, Tasks

router = APIRouter(tags=["tasks"])
HIDDEN = "(hidden)"
_PUT: dict[int | str, dict[str, Any]] = {
    status.HTTP_201_CREATED: {"model": TaskOut},
    status.HTTP_412_PRECONDITION_FAILED: {"description": "Somebody else changed the task meanwhile."},
}

_TASK = {"$ref": "#/components/schemas/TaskSpec"}
Document = Annotated[
    Any, Body(description="A task, written out or as {name, sql, timezone}.", json_schema_extra=_TASK)
]
Documents = Annotated[
    Any, Body(description="A list of tasks.", json_schema_extra={"type": "array", "items": _TASK})
]


@router.get("/tasks")
def list_tasks(user: Reader, tasks: Tasks, topic: str | None = None) -> list[TaskOut]:
    """The tasks there are, by name."""
    return [TaskOut.of(task) for task in tasks.list(topic)]


@router.post("/tasks")
def apply_tasks(user: Writer, tasks: Tasks, documents: Documents) -> list[ChangeOut]:
    """Create new tasks and give changed ones a new version, all or nothing; other tasks stay."""
    changes = tasks.apply(_specs(documents), user.get_name())
    return [ChangeOut.model_validate(asdict(change)) for change in changes]


@router.post("/diff")
def diff_tasks(user: UnhurriedReader, tasks: Tasks, documents: Documents) -> list[DiffOut]:
    """What applying these tasks would do; nothing is changed."""
    return [DiffOut.model_validate(asdict(found)) for found in tasks.diff(_specs(documents))]


@router.post("/test")
def test_document(user: UnhurriedReader, tasks: Tasks, wanted: NewTrialIn) -> TrialOut:
    """Try a task on lines without applying it: what each part took, why a line is not counted."""
    try:
        (spec,) = parse_documents([wanted.task])
    except TasksRefused as refused:
        raise below(refused, "/0").under("/task") from None
    try:
        return _trial(tasks, spec, wanted, user)
    except TasksRefused as refused:
        raise refused.under("/task") from None


@router.post("/tasks/{name}:pause")
def pause_task(name: str, user: Writer, tasks: Tasks) -> TaskOut:
    """Stop counting the task, from the next batch on."""
    return TaskOut.of(tasks.pause(name, user.get_name()))


@router.post("/tasks/{name}:resume")
def resume_task(name: str, user: Writer, tasks: Tasks) -> TaskOut:
    """Count a paused or failed task again, from the next batch on."""
    return TaskOut.of(tasks.resume(name, user.get_name()))


@router.get("/tasks/{name}/history")
def task_history(name: str, user: Reader, tasks: Tasks) -> list[HistoryOut]:
    """Who changed what and when, also of deleted tasks of that name."""
    return [HistoryOut.model_validate(asdict(entry)) for entry in tasks.history(name)]


@router.get("/tasks/{name}/grouping")
def task_grouping(name: str, user: Reader, tasks: Tasks, progress: Progress) -> GroupingReport:
    """How the task's lines are dealt out to workers, why, and how evenly."""
    return _shown(_report(name, tasks, progress), user)


@router.get("/tasks/{name}/hotkeys")
def task_hotkeys(name: str, user: Reader, tasks: Tasks, progress: Progress) -> tuple[HotKeyReport, ...]:
    """The task's most frequent keys, over its last batches; a viewer sees the shares, not the keys."""
    return _shown(_report(name, tasks, progress), user).hot


@router.post("/tasks/{name}/test")
def test_task(name: str, user: UnhurriedReader, tasks: Tasks, wanted: TrialIn) -> TrialOut:
    """Try a task on lines."""
    return _trial(tasks, tasks.get(name).spec, wanted, user)


@router.get("/tasks/{name}")
def get_task(name: str, user: Reader, tasks: Tasks, response: Response) -> TaskOut:
    """One task. Its ETag, sent as If-Match of a PUT, keeps others' changes."""
    return _tagged(tasks.get(name), response)


@router.put("/tasks/{name}", responses=_PUT)
def put_task(
    name: str,
    user: Writer,
    tasks: Tasks,
    document: Document,
    response: Response,
    *,
    if_match: Annotated[str | None, Header(description="The task's ETag: 412 if it has another.")] = None,
    if_none_match: Annotated[str | None, Header(description="*: 412 if there is such a task.")] = None,
) -> TaskOut:
    """Create the task, or give it a new version if it changed. The body may leave out its name."""
    if isinstance(document, dict):
        document = {"name": name, **document}
    try:
        (spec,) = parse_documents([document])
        if spec.name != name:
            raise TasksRefused([Problem("/0/name", f"{spec.name!r}: the address says {name!r}")])
        (change,) = tasks.apply([spec], user.get_name(), expected(name, if_match, if_none_match))
    except TasksRefused as refused:
        raise below(refused, "/0") from None
    response.status_code = (
        status.HTTP_201_CREATED if change.action == ChangeAction.CREATED else status.HTTP_200_OK
    )
    return _tagged(tasks.get(name), response)


@router.delete("/tasks/{name}")
def delete_task(name: str, user: Writer, tasks: Tasks) -> TaskOut:
    """Stop counting the task; its results stay. The answer is the task as it was."""
    return TaskOut.of(tasks.delete(name, user.get_name()))


def expected(name: str, if_match: str | None, if_none_match: str | None) -> dict[str, str | None]:
    """What a PUT expects of the task, as `TaskStore.apply` takes it. Raises HTTPException."""
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise HTTPException(status.HTTP_400_BAD_REQUEST, "If-None-Match of a PUT: * is all it may be")
        return {name: None}
    if if_match is None:
        return {}
    tag = if_match.strip()
    if len(tag) < len('""') or (tag[0], tag[-1]) != ('"', '"'):
        raise HTTPException(status.HTTP_400_BAD_REQUEST, "If-Match: send the ETag of the task, in its quotes")
    return {name: tag[1:-1]}


def _tagged(task: Task, response: Response) -> TaskOut:
    response.headers["ETag"] = f'"{task.tag}"'
    return TaskOut.of(task)


def _shown(report: GroupingReport, user: BaseUser) -> GroupingReport:
    """The report without its keys, which may be clients' addresses, unless the user may see them."""
    if may("PUT", user) or get_settings().api.viewers_see_keys:
        return report
    hot = tuple(each.model_copy(update={"key": (HIDDEN,) * len(each.key)}) for each in report.hot)
    return report.model_copy(update={"hot": hot})


def _specs(documents: Any) -> list[TaskSpec]:
    if not isinstance(documents, list) or not documents:
        raise TasksRefused([Problem("", "a list of tasks is expected: [{...}, ...]")])
    return parse_documents(documents)


def _trial(tasks: TaskStore, spec: TaskSpec, wanted: TrialIn, user: BaseUser) -> TrialOut:
    resolved, topic = tasks.resolved(spec)
    if wanted.lines is None:
        if not may("PUT", user):
            raise HTTPException(
                status.HTTP_403_FORBIDDEN, "you may not edit DAGs, so not see live lines either: send lines"
            )
        lines = sample(get_settings(), spec.topic, wanted.sample)
    else:
        # JSON can write half a surrogate pair: the engine then sees bytes that are no UTF-8.
        lines = [line.encode("utf-8", "surrogatepass") for line in wanted.lines]
    limits = get_settings().limits
    tried = trial(resolved, topic, lines, limits)
    return TrialOut(lines=tried, error=failure(resolved, topic, lines, limits))


def _report(name: str, tasks: TaskStore, progress: Progress) -> GroupingReport:
    task = tasks.get(name)  # an unknown name gets another error than a task that is not counted yet
    found = [report for report in reports(progress, name) if report.label == task.label]
    if not found:
        raise NothingCounted(name)
    return found[0]
