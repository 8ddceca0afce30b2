"""The editor of a task: from lines to a task, its difference to the version before, and saving it.

Each request carries the whole draft, so nothing is kept on the server, and all of it works without a script.
"""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response, status
from kafka.errors import KafkaError

from sluice.metrics.registry import METRICS
from sluice.runtime.throttle import Rate
from sluice.tasks import Problem, TaskSpec, TasksRefused, parse_documents
from sluice.tasks.changes import compare, to_yaml
from sluice.tasks.store import TaskChanged
from sluice.tasks.topic_spec import COMBINED_FIELDS, TopicFormat
from sluice.tasks.versions import written
from sluice.transmission.mac import KeyMissing
from sluice.transmission.sample import sample
from sluice.transmission.topics import TopicMissing
from sluice_airflow.api.security import Writer, writer
from sluice_airflow.api.stores import Database, Instance, Lists, Tasks, Topics
from sluice_airflow.console.draft import (
    LINES,
    POINTED,
    Draft,
    check,
    name_it,
    of_form,
    of_yaml,
    point,
    readable,
)
from sluice_airflow.console.forms import Given
from sluice_airflow.console.page import lead_to, page
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)

#: Tries of a draft by each user in a minute: a script asks while somebody types.
PER_MINUTE = 240
RATE = Rate(PER_MINUTE)
PERIODS = ("10s", "1m", "5m", "15m", "1h", "6h", "1d", "7d")
ZONES = ("UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "Asia/Shanghai")
#: Metrics that have a box of their own; others are written as text.
BOXES = (*METRICS, "p50", "p95", "p99", "top10")
GROUPINGS = ("auto", "combine", "key", "planned")


def unhurried(user: Annotated[BaseUser, Depends(writer)]) -> BaseUser:
    """The logged-in user, who may write and does not try drafts too often."""
    if wait := RATE.take(user.get_name()):
        raise HTTPException(
            status.HTTP_429_TOO_MANY_REQUESTS,
            f"at most {PER_MINUTE} tries a minute: wait {wait:.0f} s",
            headers={"Retry-After": f"{max(wait, 1):.0f}"},
        )
    return user


Editor = Annotated[BaseUser, Depends(unhurried)]
Named = Annotated[str, Query(max_length=200)]


class Desk:
    """What the editor works with."""

    def __init__(self, tasks: Tasks, topics: Topics, lists: Lists, settings: Instance) -> None:
        self.tasks, self.topics, self.lists, self.settings = tasks, topics, lists, settings

    def page(
        self, request: Request, user: BaseUser, draft: Draft, code: int = 200, said: str = ""
    ) -> Response:
        """The editor with the draft in it. said: what went wrong besides the draft."""
        check(draft, self.tasks, self.topics, self.settings.limits)
        return page(
            request,
            "editor.html",
            user,
            code,
            here="statistics",
            title=f"Change {draft.origin}" if draft.origin else "New statistic",
            draft=draft,
            pointed=POINTED,
            said=said,
            topics=[each.spec.name for each in self.topics.list()],
            lists=[each.name for each in self.lists.list()],
            boxes=BOXES,
            periods=PERIODS,
            zones=ZONES,
            groupings=GROUPINGS,
            fields=COMBINED_FIELDS if draft.topic.format == TopicFormat.COMBINED else draft.topic.columns,
        )

    def knows(self, name: str) -> bool:
        """Whether there is a task of that name."""
        return any(task.name == name for task in self.tasks.list())

    def lines(self, topic: Any) -> tuple[list[str], str]:
        """The topic's newest lines, and why there are none."""
        try:
            return readable(sample(self.settings, str(topic), LINES)), ""
        except TopicMissing:
            return [], f"There is no topic {topic} yet. Paste lines, or send some to it."
        except (KafkaError, KeyMissing) as error:
            return [], f"No lines from Kafka: {error}. Paste some instead."


AtDesk = Annotated[Desk, Depends()]


@router.get("/statistics/new")
def new(request: Request, user: Editor, desk: AtDesk, *, topic: Named = "logs", like: Named = "") -> Response:
    """A new task; like: the name of the task to begin with."""
    document: dict[str, Any] = {"topic": topic, "period": "1m", "metrics": ["count"]}
    if like:
        document = {**desk.tasks.get(like).spec.document(), "name": f"{like[:59]}-copy"}
    lines, said = desk.lines(document.get("topic", topic))
    return desk.page(request, user, Draft(document, lines, yaml=to_yaml([document])), said=said)


@router.get("/statistics/task/{name}/edit")
def change(
    request: Request,
    user: Editor,
    desk: AtDesk,
    database: Database,
    name: str,
    *,
    version: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    """A task as it stands, or as an earlier version of it was."""
    task = desk.tasks.get(name)
    spec = task.spec if version is None else written(database, task.task_id, version)
    lines, said = desk.lines(spec.topic)
    draft = Draft(spec.document(), lines, task.tag, name, to_yaml([spec.document()]))
    return desk.page(request, user, draft, said=said)


@router.post("/statistics/draft")
def draft(request: Request, user: Editor, desk: AtDesk, given: Given) -> Response:
    """The editor after a change of the draft."""
    made, said = of_form(given), ""
    if given.get("do") == "lines":
        made.lines, said = desk.lines(made.document.get("topic", "logs"))
    if given.get("use"):
        name_it(made, {task.name for task in desk.tasks.list()})
    if wish := given.get("point"):
        check(made, desk.tasks, desk.topics, desk.settings.limits)
        point(made, wish)
    return desk.page(request, user, made, said=said)


@router.post("/statistics/review")
def review(request: Request, user: Editor, desk: AtDesk, given: Given) -> Response:
    """What saving the draft would change; the editor again if something is wrong with it."""
    made = of_form(given)
    check(made, desk.tasks, desk.topics, desk.settings.limits)
    if made.spec is not None and made.spec.name != made.origin and desk.knows(made.spec.name):
        made.problems = [Problem("/name", "there is a statistic of this name already: choose another")]
    if made.spec is None or made.problems:
        return desk.page(request, user, made, status.HTTP_422_UNPROCESSABLE_CONTENT)
    (found,) = desk.tasks.diff([made.spec])
    return page(
        request,
        "review.html",
        user,
        here="statistics",
        title=f"Save {made.spec.name}?",
        draft=made,
        found=found,
        renamed=bool(made.origin and made.origin != made.spec.name),
        restarts=_restarts(desk, made.spec),
    )


@router.post("/statistics/save")
def save(request: Request, user: Writer, desk: AtDesk, given: Given) -> Response:
    """Save the draft, unless somebody else changed the task meanwhile."""
    made = of_form(given)
    try:
        (spec,) = parse_documents([of_yaml(made.yaml)])
        tag = made.base if spec.name == made.origin else ""
        desk.tasks.apply([spec], user.get_name(), {spec.name: tag or None})
    except TasksRefused:
        return desk.page(request, user, made, status.HTTP_422_UNPROCESSABLE_CONTENT)
    except TaskChanged as changed:
        return _conflict(request, user, made, spec, changed)
    return lead_to(request, f"/statistics/task/{spec.name}?did=saved")


def _conflict(
    request: Request, user: BaseUser, made: Draft, spec: TaskSpec, changed: TaskChanged
) -> Response:
    """What somebody else saved meanwhile, and what the draft would change of it."""
    theirs = changed.task
    return page(
        request,
        "conflict.html",
        user,
        status.HTTP_412_PRECONDITION_FAILED,
        here="statistics",
        title=f"{spec.name} was changed meanwhile",
        said=str(changed),
        draft=made,
        theirs=theirs,
        diff_text=compare(theirs.spec if theirs else None, spec, theirs.version if theirs else 0).text,
        name=spec.name,
    )


def _restarts(desk: Desk, spec: TaskSpec) -> bool:
    """Whether the results begin again, because the task becomes a new version."""
    before = next((task for task in desk.tasks.list(None) if task.name == spec.name), None)
    return before is not None and not spec.counts_as(before.spec)
