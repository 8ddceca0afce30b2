"""Every route of the server on Airflow's port, as the code that serves them lists them."""

from __future__ import annotations

from typing import Any

from tests.airflow_home import prepare

SLUICE, EXECUTION, LOG_IN = "/sluice", "/execution", "/auth"


def sluice_routes() -> list[tuple[str, str]]:
    """Method and path of each route of Sluice's API, without its prefix /sluice."""
    prepare()
    from sluice_airflow.api.app import make_app

    return _of(make_app().router)


def airflow_routes() -> list[tuple[str, str]]:
    """Method and path of each route that Airflow brings: its API, its pages', the jobs' and the log-in's."""
    prepare()
    from airflow.api_fastapi.auth.managers.simple.routes.login import login_router
    from airflow.api_fastapi.core_api.routes.public import public_router
    from airflow.api_fastapi.core_api.routes.ui import ui_router
    from airflow.api_fastapi.execution_api.routes import execution_api_router

    core = [*_of(public_router), *_of(ui_router)]
    return core + _below(EXECUTION, _of(execution_api_router)) + _below(LOG_IN, _of(login_router))


def all_routes() -> list[tuple[str, str]]:
    """All of them, with their prefixes."""
    return sorted({*airflow_routes(), *_below(SLUICE, sluice_routes())})


def _of(router: Any) -> list[tuple[str, str]]:
    return [
        (method, route.path) for route in router.routes for method in sorted(getattr(route, "methods", ()))
    ]


def _below(prefix: str, routes: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(method, prefix + path) for method, path in routes]
