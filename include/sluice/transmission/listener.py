"""The broker's listener for other hosts, if there is one: ``<home>/hosts/listener.json``.

Enrolment writes it, and the broker reads it when it starts. Without it the broker listens to this machine
alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from sluice.runtime.files import write_whole

#: The port's name in the settings.
PORT = "kafka_hosts"
#: Of the PKCS #12 files: a formality of the format, the files' mode protects them.
STORE_PASSWORD = "sluice"  # noqa: S105


@dataclass(frozen=True)
class KafkaListener:
    """Where it listens, and the PKCS #12 files with its certificate and with the authority's."""

    address: str
    identity: str
    trust: str
    checksum: str  # of both files: with another one the broker must start again


def read(home: Path) -> KafkaListener | None:
    """The instance's listener; None if there is to be none."""
    path = _path(home)
    return KafkaListener(**json.loads(path.read_text())) if path.exists() else None


def write(home: Path, listener: KafkaListener) -> None:
    write_whole(_path(home), json.dumps(asdict(listener), indent=1) + "\n", 0o600)


def remove(home: Path) -> None:
    _path(home).unlink(missing_ok=True)


def _path(home: Path) -> Path:
    return home / "hosts" / "listener.json"
