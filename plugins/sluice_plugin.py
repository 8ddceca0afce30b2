"""What Airflow loads of Sluice: its API and its console, mounted into the API server at /sluice."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin


class ApplicationOnDemand:
    """The application, made at its first request.

    Each of Airflow's processes loads plugins, but only one needs the application.
    """

    @cached_property
    def app(self) -> Any:
        from sluice_airflow.api.app import make_app

        return make_app()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


class SluicePlugin(AirflowPlugin):
    name = "sluice"
    fastapi_apps = [{"app": ApplicationOnDemand(), "url_prefix": "/sluice", "name": "Sluice"}]  # noqa: RUF012
    #: The console, in a frame of Airflow's pages.
    external_views = [  # noqa: RUF012
        {
            "name": "Sluice",
            "href": "/sluice/console/",
            "icon": "/sluice/console/static/icon/icon.svg",
            "url_route": "sluice",
            "destination": "nav",
            "nav_top_level": True,
        }
    ]
