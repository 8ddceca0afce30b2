"""Secrets that somebody gave as environment variables, in files of mode 0600.

Whoever makes a process print its environment would have them otherwise.
``<home>/secrets/environment.json`` is for all processes of the instance; the variable NAMED names another
such file, for one process and its children. 0.1.0 reads ``secrets/given.json`` instead of the first, which
keeps it out (`stack.releases`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from sluice.runtime.files import write_whole

NAMED = "SLUICE_SECRETS_FILE"


def file(home: Path) -> Path:
    """The instance's file."""
    return home / "secrets" / "environment.json"


def read(home: Path) -> dict[str, str]:
    """The variables in the instance's file, and in the one that the environment names, which wins."""
    return {**_read(file(home)), **named()}


def named() -> dict[str, str]:
    """The variables in the file that the environment names; none if it names none."""
    path = os.environ.get(NAMED)
    return _read(Path(path)) if path else {}


def write(path: Path, variables: Mapping[str, str]) -> None:
    """Replace the file; without variables there is none."""
    if not variables:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, json.dumps(dict(sorted(variables.items()))), 0o600)


def _read(path: Path) -> dict[str, str]:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
