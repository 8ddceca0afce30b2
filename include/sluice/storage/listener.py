"""PostgreSQL's listener for jobs on other hosts, if there are any: ``<home>/hosts/postgres.json``.

Enrolment writes it, and PostgreSQL reads it when it starts. Without it PostgreSQL listens to this machine
alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from sluice.runtime.files import write_whole


@dataclass(frozen=True)
class DatabaseListener:
    """Where it listens, and to whom."""

    address: str
    clients: list[str]  # the hosts, as pg_hba.conf has them: 10.0.0.31/32, or a name


def read(home: Path) -> DatabaseListener | None:
    """The instance's listener; None if there is to be none."""
    path = _path(home)
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    return DatabaseListener(found["address"], found["clients"])  # older releases wrote more into it


def write(home: Path, listener: DatabaseListener | None) -> None:
    """Replace the listener, or remove it."""
    if listener is None:
        _path(home).unlink(missing_ok=True)
    else:
        write_whole(_path(home), json.dumps(asdict(listener), indent=1) + "\n", 0o600)


def _path(home: Path) -> Path:
    return home / "hosts" / "postgres.json"
