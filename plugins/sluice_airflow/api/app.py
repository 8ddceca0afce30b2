"""The FastAPI application, as it is mounted below /sluice in Airflow's API server."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from fastapi import APIRouter, FastAPI
from pydantic.json_schema import models_json_schema

from sluice.metrics import load_team
from sluice.runtime.installed import own_version
from sluice.tasks import TaskSpec, TopicSpec
from sluice_airflow import SEVERAL_HOSTS
from sluice_airflow.api import (
    errors,
    events,
    history,
    lag,
    lines,
    lists,
    metrics,
    rebuilds,
    results,
    sql_password,
    statements,
    tasks,
    topics,
)
from sluice_airflow.api.basic import BasicLogin
from sluice_airflow.api.models import Problems
from sluice_airflow.api.security import Reader
from sluice_airflow.console.router import make_router

PREFIX = "/api/v1"


def make_app() -> FastAPI:
    """A new application; its OpenAPI document is for logged-in users too."""
    load_team()
    app = FastAPI(
        title="Sluice",
        version=own_version(),
        description="What is counted: tasks, value lists and topics.",
        openapi_url=None,  # FastAPI's own would ask for no login
        servers=[{"url": "/sluice"}],
        responses={422: {"model": Problems, "description": "The body is refused, with every problem found."}},
    )
    api = APIRouter(prefix=PREFIX)
    for part in (
        results,
        events,
        lines,
        tasks,
        lists,
        topics,
        rebuilds,
        lag,
        *_of_several_hosts(),
        history,
        statements,
        sql_password,
    ):
        api.include_router(part.router)

    @api.get("/openapi.json", include_in_schema=False)
    def openapi(user: Reader) -> dict[str, Any]:
        return document(app)

    app.include_router(api)
    app.include_router(metrics.router)
    app.include_router(make_router())
    errors.install(app)
    app.add_middleware(BasicLogin)
    return app


def _of_several_hosts() -> list[ModuleType]:
    """The routes that need the package of several hosts, if it is installed."""
    if not SEVERAL_HOSTS:
        return []
    from sluice_airflow.api import placement

    return [placement]


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the schemas of the bodies that are parsed by hand."""
    made = app.openapi()
    _, schemas = models_json_schema(
        [(TaskSpec, "validation"), (TopicSpec, "validation")], ref_template="#/components/schemas/{model}"
    )
    made["components"]["schemas"] |= schemas["$defs"]
    return made
