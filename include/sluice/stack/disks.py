"""The file systems that have folders of the instance: how much is free, and what of it is reserve.

Three levels, each lower than the one before, say what a file system has space for. Below its reserve nothing
new comes in; below half of it, what came in is not counted or archived, either; below a quarter no daemon is
started, because it would only end again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.stack.daemon import Daemon

GIB = 1 << 30
#: The instance's own folder: settings, progress, secrets and whatever has no folder below.
HOME = "home"
#: Folders that may lie in file systems of their own, beside each store's below `data`.
OTHERS = ("airflow", "flume", "logs", "spark", "tmp")
#: The layers write to none of these.
_INTAKE_ONLY = frozenset({"data/kafka", "flume", "logs"})
#: The largest share of a small disk that is reserve.
_SHARE = 4


@dataclass(frozen=True)
class Disk:
    """A file system. size, free and reserve: in bytes; free: for a user who is not root."""

    folders: tuple[str, ...]
    size: int
    free: int
    reserve: int

    @property
    def name(self) -> str:
        """What it is called: the first of its folders."""
        return self.folders[0]

    @property
    def full(self) -> bool:
        """Whether no daemon can work on it."""
        return self.free < self.reserve // 4

    def level(self, what: Hold) -> int:
        """Below so many free bytes it is held; 0: for this file system it never is."""
        if what == Hold.INTAKE:
            return self.reserve
        return 0 if _INTAKE_ONLY.issuperset(self.folders) else self.reserve // 2

    def __str__(self) -> str:
        return f"{self.name} has {self.free / GIB:.2f} of {self.size / GIB:.1f} GiB left"


def look(settings: Settings) -> list[Disk]:
    """The file systems as they are now, that of the instance's own folder first."""
    found: dict[int, tuple[list[str], Path]] = {}
    for name, path in _folders(settings.home):
        with suppress(FileNotFoundError):
            found.setdefault(path.stat().st_dev, ([], path))[0].append(name)
    return [_disk(settings, tuple(names), path) for names, path in found.values()]


def lacking(settings: Settings, daemon: Daemon, *more: Daemon) -> list[Disk]:
    """The full file systems of daemons' data, and of the instance's own folder."""
    wanted = {HOME, *(folder for each in (daemon, *more) for folder in each.data)}
    return [disk for disk in look(settings) if disk.full and wanted.intersection(disk.folders)]


def _folders(home: Path) -> Iterator[tuple[str, Path]]:
    yield HOME, home
    with suppress(FileNotFoundError):
        yield from (
            (f"data/{path.name}", path) for path in sorted((home / "data").iterdir()) if path.is_dir()
        )
    yield from ((name, home / name) for name in OTHERS)


def _disk(settings: Settings, folders: tuple[str, ...], path: Path) -> Disk:
    seen = os.statvfs(path)
    size = seen.f_blocks * seen.f_frsize
    reserve = min(settings.limits.reserve_bytes, size // _SHARE)
    return Disk(folders, size, seen.f_bavail * seen.f_frsize, reserve)
