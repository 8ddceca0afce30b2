"""The page of all topics, and the deletion of one that was made by mistake."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from sluice.archive import topic_deletion
from sluice.storage.tables.speed_topics import SpeedTopics
from sluice_airflow.api.security import Reader, Writer
from sluice_airflow.api.stores import Database, Instance, Topics
from sluice_airflow.console.page import lead_to, page
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)


@router.get("/topics")
def listed(request: Request, user: Reader, topics: Topics, database: Database) -> Response:
    """The topics that are described or that a task reads."""
    return page(
        request,
        "topics.html",
        user,
        here="platform",
        title="Topics",
        topics=topics.list(),
        places=SpeedTopics(database).places(),
    )


@router.get("/topics/{name}/delete")
def ask_to_delete(
    request: Request, user: Writer, settings: Instance, database: Database, name: str
) -> Response:
    """Ask whether the topic is to be deleted, or say why it stays."""
    found = topic_deletion.look(settings, database, name)
    return page(
        request, "topic_delete.html", user, here="platform", title=f"Delete topic {name}?", found=found
    )


@router.post("/topics/{name}/delete")
def delete(request: Request, user: Writer, settings: Instance, database: Database, name: str) -> Response:
    """Delete the topic, and show the others."""
    topic_deletion.delete(settings, database, name, user.get_name())
    return lead_to(request, "/topics")
