"""What a backup says of itself: `manifest.json`, which is written last. A folder without it is no backup."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sluice.runtime.files import settle, write_whole

FILE = "manifest.json"
#: Of the form of a backup. A release that cannot read a form says so.
FORM = 1


class NoBackup(LookupError):
    """There is no complete backup where one was looked for."""


class DamagedBackup(RuntimeError):
    """A backup is not as its manifest says."""


@dataclass(frozen=True)
class BackupPart:
    """One file of a backup: its path below the backup's folder, its length and its SHA-256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class DumpedTable:
    """A table of a database, by its schema and name; its rows are in the part of that path."""

    schema: str
    name: str
    columns: tuple[str, ...]
    rows: int
    path: str


@dataclass(frozen=True)
class DumpedDatabase:
    """A database as of one moment. sequences: the last number that each gave; null if it gave none.

    release: what made its schema, as the instance that takes the backup knows it.
    """

    release: str
    tables: tuple[DumpedTable, ...]
    sequences: Mapping[str, int | None]


@dataclass(frozen=True)
class Manifest:
    """A complete backup. Times are in ISO 8601, UTC.

    databases: by the name of the role's setting: sluice, airflow, metastore. cells: how many of each of
    HBase's tables. projected: by topic, the commit up to which the copied results are complete. topics: how
    many partitions each has in Kafka. secrets: a hash by which the instance's secrets are known. problems:
    what was wrong with the archive; it was copied as it was.
    """

    instance: str
    began: str
    ended: str
    release: str
    namenode: str
    raw: str
    warehouse: str
    databases: Mapping[str, DumpedDatabase]
    cells: Mapping[str, int]
    projected: Mapping[str, int]
    topics: Mapping[str, int]
    secrets: str
    with_secrets: bool
    files: int  # of HDFS
    file_bytes: int
    parts: tuple[BackupPart, ...]
    problems: tuple[str, ...]
    form: int = field(default=FORM)

    def write(self, folder: Path) -> None:
        """Make the folder a backup, in one step that outlives a power cut."""
        path = folder / FILE
        write_whole(path, json.dumps(asdict(self), indent=1), 0o600)
        settle(path)
        settle(folder)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Raises NoBackup, and DamagedBackup where this release cannot read it."""
        path = folder / FILE
        if not path.is_file():
            raise NoBackup(f"{folder} has no {FILE}: it is no backup, or one that was cut short")
        try:
            said = json.loads(path.read_text())
            if said["form"] != FORM:
                raise DamagedBackup(
                    f"{path} has the form {said['form']}, and this release reads {FORM}: restore it with the "
                    f"release that took it, {said.get('release', 'a newer one')}"
                )
            return cls(**{**said, **_nested(said)})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedBackup(f"{path} cannot be read ({error!r}): use another backup") from error


def _nested(said: Mapping[str, Any]) -> dict[str, Any]:
    databases = {
        name: DumpedDatabase(
            each["release"],
            tuple(DumpedTable(**{**table, "columns": tuple(table["columns"])}) for table in each["tables"]),
            each["sequences"],
        )
        for name, each in said["databases"].items()
    }
    return {
        "databases": databases,
        "parts": tuple(BackupPart(**each) for each in said["parts"]),
        "problems": tuple(said["problems"]),
    }
