"""Topics: what their lines look like."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Response, status
from pydantic import ValidationError

from sluice.archive import topic_deletion
from sluice.storage.tables.speed_topics import SpeedTopics
from sluice.tasks import Problem, TasksRefused, TopicSpec, explain
from sluice.tasks.changes import ChangeAction
from sluice_airflow.api.models import TopicOut
from sluice_airflow.api.security import Reader, Writer
from sluice_airflow.api.stores import Database, Instance, Topics

router = APIRouter(tags=["topics"])

Document = Annotated[
    Any,
    Body(
        description="The topic's format, fields and time.",
        json_schema_extra={"$ref": "#/components/schemas/TopicSpec"},
    ),
]


@router.get("/topics")
def list_topics(user: Reader, topics: Topics, database: Database) -> list[TopicOut]:
    """The topics that are described or that a task reads, by name."""
    places = SpeedTopics(database).places()
    return [TopicOut.of(topic, places.get(topic.spec.name)) for topic in topics.list()]


@router.get("/topics/{name}")
def get_topic(name: str, user: Reader, topics: Topics) -> TopicSpec:
    """A topic's format; one that nobody described is Apache's access log."""
    return _valid(lambda: topics.get(name))


@router.put("/topics/{name}", responses={status.HTTP_201_CREATED: {"model": TopicSpec}})
def put_topic(name: str, user: Writer, topics: Topics, document: Document, response: Response) -> TopicSpec:
    """Define what the topic's lines look like; once it has lines, its format stays."""
    if isinstance(document, dict):
        document = {"name": name, **document}
    spec = _valid(lambda: TopicSpec.model_validate(document))
    if spec.name != name:
        raise TasksRefused([Problem("/name", f"{spec.name!r}: the address says {name!r}")])
    if topics.apply(spec, user.get_name()) == ChangeAction.CREATED:
        response.status_code = status.HTTP_201_CREATED
    return topics.get(name)


@router.delete("/topics/{name}", status_code=status.HTTP_204_NO_CONTENT)
def delete_topic(name: str, user: Writer, settings: Instance, database: Database) -> None:
    """Delete a topic that was made by mistake, with its records; one that is or was used stays (409)."""
    topic_deletion.delete(settings, database, name, user.get_name())


def _valid(make: Any) -> TopicSpec:
    try:
        spec: TopicSpec = make()
    except ValidationError as error:
        raise TasksRefused(explain(error)) from None
    return spec
