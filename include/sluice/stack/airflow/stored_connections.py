"""The settings' connections inside Airflow, where a person can change them.

They are in Airflow's database and not in AIRFLOW_CONN_* variables, which would hide every change made in the
UI. A file keeps what was given last time. A connection that is still as it was given follows the settings;
one that a person has changed is left alone. To get the settings' connection back, delete it in Airflow.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings
from sluice.stack.airflow.connections import from_settings
from sluice.stack.airflow.rest_api import Airflow

# The password is not among them because it cannot be read back: the one given last is known by its hash.
COMPARED = ("conn_type", "host", "port", "login", "schema", "extra")


def give(settings: Settings, airflow: Airflow) -> list[str]:
    """Bring Airflow's connections to the settings; returns the names of those written.

    A connection that a person has changed stays as it is.
    """
    path = settings.home / "airflow" / "connections.json"
    given: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    there = airflow.connections()
    written = []
    for name, wanted in from_settings(settings).items():
        if name in there:
            last = given.get(name, {})
            if _same(there[name], wanted):
                if last.get("password", _hash(wanted)) == _hash(wanted):
                    given[name] = _kept(wanted)
                    continue
            elif not _same(there[name], last):
                continue
        airflow.put_connection(name, wanted)
        given[name] = _kept(wanted)
        written.append(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(given, indent=1), 0o600)
    return written


def _kept(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {**_shown(fields), "password": _hash(fields)}


def _hash(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(str(fields.get("password") or "").encode()).hexdigest()


def _shown(fields: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: fields.get(name) or None for name in COMPARED}
    if isinstance(shown["extra"], str):
        shown["extra"] = json.loads(shown["extra"])
    return shown


def _same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    return _shown(left) == _shown(right)
