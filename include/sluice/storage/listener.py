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
class Listener:
    """Where it listens, to whom, and with which certificate."""

    address: str
    clients: list[str]  # the hosts, as pg_hba.conf has them: 10.0.0.31/32, or a name
    certificate: str  # a file in PEM
    key: str  # a file in PEM, of mode 0600
    checksum: str  # of both: with another one PostgreSQL must start again


def read(home: Path) -> Listener | None:
    """The instance's listener; None if there is to be none."""
    path = _path(home)
    return Listener(**json.loads(path.read_text())) if path.exists() else None


def write(home: Path, listener: Listener | None) -> None:
    """Replace the listener, or remove it."""
    if listener is None:
        _path(home).unlink(missing_ok=True)
    else:
        write_whole(_path(home), json.dumps(asdict(listener), indent=1) + "\n", 0o600)


def _path(home: Path) -> Path:
    return home / "hosts" / "postgres.json"
