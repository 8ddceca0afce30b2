"""The settings of a job on another host: the platform's own, resolved, as a file of shell variables.

It holds the passwords that a job needs, so it is copied as the secrets of agents are: over SFTP, with mode
0600, and named by no command.
"""

from __future__ import annotations

import json
import shlex
from pathlib import PurePath

from sluice.runtime.settings import Settings

#: What no job needs: its own place, and secrets of other parts.
_LEFT_OUT = {"instance", "home", "root", "network", "notifications", "airflow", "api", "hive"}


def environment(settings: Settings, home: PurePath, release: str) -> str:
    """The file. settings: as they are there. home: the job's own folder. release: where Sluice is."""
    values = {"instance": settings.instance, "home": str(home), "root": release, "network": "host"}
    values |= settings.model_dump(mode="json", exclude=_LEFT_OUT)
    lines = []
    for name, value in sorted(values.items()):
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        lines.append(f"export SLUICE_{name.upper()}={shlex.quote(text)}\n")
    return "".join(lines)
