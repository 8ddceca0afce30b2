"""Airflow's connections as a job's environment and as settings."""

from __future__ import annotations

import contextlib

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from sluice.runtime.settings import Settings, get_settings
from sluice.stack.airflow import connections


def environment() -> dict[str, str]:
    """What a job's environment needs to use Airflow's connections.

    This is for workers; a trigger uses `aenvironment`.
    """
    return _environment(_found())


async def aenvironment() -> dict[str, str]:
    """The same for triggers, which must not block their event loop."""
    return _environment(await _afound())


def settings() -> Settings:
    """The settings with Airflow's connections in them.

    This is for workers; a trigger uses `asettings`.
    """
    return connections.to_settings(_found())


async def asettings() -> Settings:
    return connections.to_settings(await _afound())


def _environment(found: dict[str, connections.Connection]) -> dict[str, str]:
    return {"SLUICE_INSTANCE": get_settings().instance, **connections.environment(found)}


def _found() -> dict[str, connections.Connection]:
    """The connections that exist; for the others the settings apply."""
    found: dict[str, connections.Connection] = {}
    for name in connections.CONNECTIONS:
        with contextlib.suppress(AirflowNotFoundException):
            found[name] = BaseHook.get_connection(name)
    return found


async def _afound() -> dict[str, connections.Connection]:
    found: dict[str, connections.Connection] = {}
    for name in connections.CONNECTIONS:
        with contextlib.suppress(AirflowNotFoundException):
            found[name] = await BaseHook.aget_connection(name)
    return found
