"""All addresses of the console. Each of them depends on the logged-in user."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, HTTPException, Response, status

from sluice_airflow.api.security import Reader
from sluice_airflow.console import (
    changes,
    charts,
    dashboard_edit,
    dashboards,
    dead,
    editor,
    first,
    lines,
    platform,
    quality,
    rebuilds,
    statements,
    statistics,
    task_page,
    topics,
)
from sluice_airflow.console.assets import TYPES, assets
from sluice_airflow.console.page import PATH
from sluice_airflow.console.route import PageRoute

FOR_EVER = "private, max-age=31536000, immutable"

statics = APIRouter()
lost = APIRouter(route_class=PageRoute)


@statics.get("/static/{digest}/{name}")
def static(digest: str, name: str, user: Reader) -> Response:
    """A style or a script."""
    known = assets()
    if name not in known.files:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such file")
    # A page that was made before an update names other files than there are now.
    cached = FOR_EVER if digest == known.digest else "no-store"
    headers = {"Cache-Control": cached, "Content-Type": TYPES[PurePath(name).suffix]}
    return Response(known.files[name], headers=headers)


@lost.get("/{rest:path}")
def nothing(rest: str, user: Reader) -> Any:
    """Every other address."""
    raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such page")


def make_router() -> APIRouter:
    """The console's routes."""
    router = APIRouter(prefix=PATH, include_in_schema=False)
    written = (statistics.router, editor.router, task_page.router)
    watched = (platform.router, topics.router, rebuilds.router, statements.router)
    checked = (quality.router, dead.router, changes.router)
    drawn = (charts.pages, charts.data, lines.router)
    # `dashboards/pin` comes before `dashboards/{number}`.
    kept = (dashboard_edit.router, dashboards.router)
    for part in (statics, first.router, *written, *drawn, *kept, *watched, *checked, lost):
        router.include_router(part)
    return router
