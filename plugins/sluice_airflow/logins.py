"""How hosts are logged in to: what their connections in Airflow say now is taken up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from sluice.runtime.settings import Settings

SOURCE = "hosts"
FIELDS = ("conn_type", "host", "port", "login", "password", "extra")
SECONDS = 60.0  # between two looks


async def watch(settings: Settings, log: Callable[[str], object]) -> None:
    """Take up for ever what changes."""
    fault = ""
    while True:
        try:
            lines, fault = await take_up(settings), ""
        except Exception as error:  # what is away comes back
            before, fault = fault, f"cannot read the connections of hosts: {type(error).__name__}: {error}"
            lines = [fault] if fault != before else []
        for line in lines:
            log(line)
        await asyncio.sleep(SECONDS)


async def take_up(settings: Settings) -> list[str]:
    """Use what the connections of enrolled hosts say; returns what changed, as lines for the log.

    A host whose connection cannot be used is reached as before, and an alert says why. Raises what Airflow
    or PostgreSQL raises while it is away.
    """
    names = await asyncio.to_thread(_connections, settings)
    found = {host: await _fields(name) for host, name in names.items()}
    return await asyncio.to_thread(_take_up, settings, found)


def _connections(settings: Settings) -> dict[str, str]:
    """The ids of connections, by enrolled host."""
    from sluice_hosts import hosts
    from sluice_hosts.trust import enrolment

    return {
        name: host.connection
        for name, host in hosts.load(settings).items()
        if host.connection and enrolment.state(settings, host) == "yes"
    }


async def _fields(name: str) -> dict[str, Any] | None:
    """None if there is no such connection."""
    try:
        found = await BaseHook.aget_connection(name)
    except AirflowNotFoundException:
        return None
    return {field: getattr(found, field) for field in FIELDS}


def _take_up(settings: Settings, found: Mapping[str, dict[str, Any] | None]) -> list[str]:
    from sluice.collection.errors import AgentError, HostUnreachable
    from sluice_hosts.trust import enrolment, login

    lines, wrong = [], {}
    for name, fields in found.items():
        host = enrolment.known(settings, name)
        try:
            if fields is None:
                raise login.LoginError(f"host {name}: connection {host.connection}: not in Airflow; make it")
            if enrolment.take_up(settings, host, login.of_connection(settings, host, fields)):
                lines.append(f"{name}: what the connection {host.connection} says now is used")
        except (AgentError, HostUnreachable) as error:
            wrong[f"{name}: connection"] = f"{error}. Until then {name} is reached as before."
    return lines + _sync(settings, wrong)


def _sync(settings: Settings, wrong: Mapping[str, str]) -> list[str]:
    """Make these the open alerts; returns what changed, as lines for the log."""
    from sluice.storage import postgres
    from sluice.storage.tables import alerts

    raised, cleared = alerts.sync(postgres.engine(settings), SOURCE, wrong)
    return [f"ALERT {wrong[name]}" for name in raised] + [f"over: {name}" for name in cleared]
