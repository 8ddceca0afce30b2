"""A connection of Airflow with its secrets, by Airflow's own command.

The REST API hides secrets, and knows nothing of secrets backends and AIRFLOW_CONN_* variables.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from sluice.runtime.settings import Settings
from sluice.stack.airflow.configuration import write_config
from sluice.stack.daemons.airflow import AIRFLOW
from sluice.stack.environment import environment

FIELDS = ("conn_type", "host", "port", "login", "password")
_SECONDS = 120.0  # it takes 2 s where nothing else runs


class ConnectionNotRead(RuntimeError):
    """Airflow does not give a connection."""


def connection(settings: Settings, name: str) -> dict[str, Any]:
    """The connection's fields by their names in Airflow's JSON; ``extra`` is an object of texts.

    Raises ConnectionNotRead.
    """
    write_config(settings)  # of an instance that was never up there is none
    inherited = environment(settings)
    inherited.pop("FORCE_COLOR", None)  # it would colour the answer
    command = [AIRFLOW, "connections", "get", name, "--output", "json"]
    try:
        done = subprocess.run(
            command, env=inherited, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ConnectionNotRead(
            f"connection {name!r}: Airflow's command does not end within {_SECONDS:g} s: see `sluice status`"
        ) from error
    # Warnings come before it. They also go to the output, and no error may show what is in that.
    answer = next((line for line in done.stdout.splitlines() if line.startswith("[{")), "")
    if done.returncode != 0 or not answer:
        said = (done.stderr.strip().splitlines() or ["no answer"])[-1][:200]
        raise ConnectionNotRead(
            f"connection {name!r}: Airflow does not give it ({said}): if `sluice status` shows that the "
            "platform runs, make the connection in Airflow (Admin, Connections), or correct hosts.yaml"
        )
    (found,) = json.loads(answer)
    return {**{field: found[field] for field in FIELDS}, "extra": found["extra_dejson"]}
