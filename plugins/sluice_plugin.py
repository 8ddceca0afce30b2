"""What Airflow loads of Sluice: the REST API, mounted into its API server at /sluice."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin


class OnDemand:
    """The API, made at its first request.

    Each of Airflow's processes loads plugins, but only one needs the API.
    """

    @cached_property
    def app(self) -> Any:
        from sluice_airflow.api.app import make_app

        return make_app()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


class SluicePlugin(AirflowPlugin):
    name = "sluice"
    fastapi_apps = [{"app": OnDemand(), "url_prefix": "/sluice", "name": "Sluice"}]  # noqa: RUF012
