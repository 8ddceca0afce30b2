"""A small instance in a directory for tests of backups: files as in HDFS, and cells as in HBase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sluice.archive import file
from sluice.archive.file import ArchivedPartition
from sluice.archive.layout import file_name
from sluice.backup.manifest import DumpedDatabase, DumpedTable, Manifest
from sluice.backup.parts import HashedFile
from sluice.runtime.settings import Settings
from sluice.storage.hbase import NAMES_ONLY, Cells, HBase
from sluice.storage.stores import LocalStore

PLACE = ArchivedPartition("logs", "id-1", 0)


def write_archive(raw: Path, first: int, following: int) -> Path:
    """An archive file of those offsets, without lines."""
    path = raw / "logs" / "id-1" / "0" / file_name(first)
    made = file.of_seam(PLACE, first, following, 1)
    LocalStore().write(str(path), made.data)
    return path


class CountingReads(LocalStore):
    """A store that counts how many bytes of each file were read."""

    def __init__(self) -> None:
        self.read_bytes: dict[str, int] = {}

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, offset, length)
        self.read_bytes[path] = self.read_bytes.get(path, 0) + len(data)
        return data


class CellsInMemory(HBase):
    """HBase's tables as dictionaries, with what a backup calls; `stamps` are the times of what was put."""

    def __init__(self, cells: Mapping[str, Mapping[bytes, Cells]] | None = None) -> None:
        self.cells = {
            table: {row: dict(own) for row, own in rows.items()} for table, rows in (cells or {}).items()
        }
        self.stamps: dict[str, int | None] = {}
        self.gets: list[Sequence[bytes]] = []

    def scan(
        self, table: str, *, row_filter: str | None = None, **_: Any
    ) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        for row, own in sorted(self.cells.get(table, {}).items()):
            yield row, {name: b"" if row_filter == NAMES_ONLY else value for name, value in own.items()}

    def get(
        self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] | None = None
    ) -> dict[bytes, dict[bytes, bytes]]:
        self.gets.append(rows)
        return {row: dict(self.cells[table][row]) for row in rows if row in self.cells[table]}

    def put(self, table: str, rows: Any, *, timestamp: int | None = None) -> int:
        self.stamps[table] = timestamp
        count = 0
        for row, own in rows:
            self.cells.setdefault(table, {}).setdefault(row, {}).update(own)
            count += 1
        return count


def silent(text: str) -> None:
    """Say nothing."""


@contextmanager
def quiet(name: str) -> Iterator[Any]:
    """A phase of which nobody sees anything."""
    yield silent


def instance(root: Path, name: str = "trial") -> Settings:
    """An instance whose directories in HDFS are those of this machine, with secrets."""
    home = root / "var" / name
    return Settings(
        instance=name,
        home=home,
        root=root,
        port_base=29_000,
        hdfs={"raw": str(root / "hdfs" / "raw"), "warehouse": str(root / "hdfs" / "warehouse")},  # type: ignore[arg-type]
    )


def manifest(**given: Any) -> Manifest:
    """A manifest in which everything is small."""
    table = DumpedTable("public", "tasks", ("id", "name"), 2, "postgres-sluice/public.tasks.zst")
    fields: dict[str, Any] = {
        "instance": "main",
        "began": "2026-01-05T02:00:00+00:00",
        "ended": "2026-01-05T02:01:00+00:00",
        "release": "0.1.0",
        "namenode": "hdfs://127.0.0.1:21030",
        "raw": "/sluice/raw",
        "warehouse": "/sluice/warehouse",
        "databases": {"sluice": DumpedDatabase("0026", (table,), {"public.tasks_id_seq": 2})},
        "cells": {"state": 1},
        "projected": {"logs": 7},
        "topics": {"logs": 2},
        "secrets": "",
        "with_secrets": True,
        "files": 0,
        "file_bytes": 0,
        "parts": (),
        "problems": (),
    }
    return Manifest(**{**fields, **given})


def written(path: Path, data: bytes) -> tuple[int, str]:
    """Write a file of a backup; returns its length and SHA-256."""
    out = HashedFile(path)
    out.write(data)
    out.close()
    return out.bytes, out.sha256
