"""Airflow without daemons: a home of its own, Sluice's plugins and connections."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.airflow_home import prepare
from tests.plugins.application import app, client, database, login  # noqa: F401 - fixtures
from tests.plugins.live import http, name, token  # noqa: F401 - fixtures
from tests.plugins.searched import search  # noqa: F401 - a fixture

prepare()  # before any import of airflow


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch):
    """Set Airflow's connections by the settings; call the result to change one's fields."""
    from sluice.runtime.settings import get_settings
    from sluice.stack.airflow import connections

    def connect(service: str, **fields) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{service.upper()}", json.dumps(fields))

    for service, fields in connections.from_settings(get_settings()).items():
        connect(service, **fields)
    return connect


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An instance's directory without daemons; processes recorded there are stopped at the end."""
    from sluice.runtime import detached
    from sluice.runtime.settings import get_settings

    monkeypatch.setenv("SLUICE_INSTANCE", "test")
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    get_settings.cache_clear()
    yield tmp_path
    for job in detached.names(tmp_path / "run"):
        if (record := detached.read(job)) is not None:
            detached.stop(record, 0)
    get_settings.cache_clear()
