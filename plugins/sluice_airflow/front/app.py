"""What uvicorn serves: Airflow's application behind the guard."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.main import app as airflow

from sluice.runtime.settings import get_settings
from sluice.stack.networking.connection_source import source_of
from sluice_airflow.front.guard import Guard
from sluice_airflow.headers import SecurityHeaders

ELSEWHERE = "elsewhere"


def source(peer: tuple[Any, ...] | None) -> str:
    """The user of this machine to whom a login's cookie is bound; one word for everybody on other machines.

    In a network of the instance's own, a door gives each of its sources an address of 127.0.0.0/8, and
    nobody else is there. The address of another machine may change while somebody is logged in.
    """
    if peer is None:
        return ELSEWHERE
    settings = get_settings()
    if settings.private:
        return str(peer[0])
    found = source_of(peer, settings.port("airflow"))
    return found if found.startswith("uid:") else ELSEWHERE


app = SecurityHeaders(Guard(airflow, lambda: get_settings().airflow.url, source))
