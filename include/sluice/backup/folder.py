"""The directory with backups: a folder for each, named by its time, and one pool of HDFS's files for all.

A file is in the pool under its SHA-256, so a backup adds only files that no earlier one had. The catalogue
(`copied.jsonl`) says which file of HDFS became which of the pool; it grows while files are copied, so a
backup that was cut short is gone on with.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from sluice.backup.manifest import FILE, NoBackup
from sluice.backup.parts import BackupParts, HashedFile
from sluice.runtime.files import settle, write_whole

POOL, CATALOGUE, LOCK = "pool", "copied.jsonl", ".lock"
#: The list of HDFS's files in each backup's folder.
LISTED = "files.jsonl"
NAME = "%Y%m%dT%H%M%S.%fZ"


class BackupRuns(RuntimeError):
    """Another backup, or a restore, uses the directory."""


class BadTarget(ValueError):
    """A directory cannot take a backup."""


@dataclass(frozen=True)
class PooledFile:
    """A file of HDFS and what it is in the pool. tail: the SHA-256 of its last 64 KiB, where footers are.

    A directory without files has no bytes, and no sha256.
    """

    path: str
    bytes: int
    tail: str
    sha256: str


class BackupFolder:
    """A directory with backups."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep the directory for this process. Raises BackupRuns, BadTarget."""
        if self.root.exists() and not self.root.is_dir():
            raise BadTarget(f"{self.root} is no directory: name one, which is made if it is missing")
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.foreign():
            raise BadTarget(
                f"{self.root} has other files, such as {self.foreign()[0]}: name an empty directory, or one "
                "with backups"
            )
        try:
            with FileLock(self.root / LOCK, timeout=0, mode=0o600):
                yield
        except Timeout:
            raise BackupRuns(f"{self.root}: another backup or restore uses it: wait for its end") from None

    def foreign(self) -> list[str]:
        """What is there and is no backup's."""
        names = sorted(path.name for path in self.root.iterdir())
        return [name for name in names if name not in (POOL, CATALOGUE, LOCK) and not _is_time(name)]

    def begin(self, now: datetime) -> BackupParts:
        """The parts of a new backup; what backups that were cut short left is deleted."""
        for path in self._folders():
            if not (path / FILE).exists():
                shutil.rmtree(path)
        folder = self.root / now.astimezone(UTC).strftime(NAME)
        folder.mkdir(mode=0o700)
        return BackupParts(folder)

    def complete(self) -> list[Path]:
        """The backups that count, oldest first."""
        return [path for path in self._folders() if (path / FILE).exists()]

    def pooled(self, sha256: str) -> Path:
        return self.root / POOL / sha256[:2] / sha256

    def incoming(self) -> HashedFile:
        """A file that is about to join the pool."""
        return HashedFile(self.root / POOL / ".new")

    def join(self, incoming: HashedFile) -> str:
        """Give a whole file its name in the pool; returns its SHA-256."""
        incoming.close()
        path = self.pooled(incoming.sha256)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        (self.root / POOL / ".new").replace(path)
        settle(path.parent)
        return incoming.sha256

    def catalogue(self) -> dict[str, PooledFile]:
        """What was copied, by path in HDFS; a line that was cut short is none."""
        path = self.root / CATALOGUE
        found: dict[str, PooledFile] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                with contextlib.suppress(ValueError, TypeError):
                    each = PooledFile(**json.loads(line))
                    found[each.path] = each
        return found

    def note(self, files: Iterable[PooledFile]) -> None:
        """Add files to the catalogue."""
        path = self.root / CATALOGUE
        text = "".join(json.dumps(asdict(each)) + "\n" for each in files)
        with path.open("a") as out:
            out.write(f"\n{text}")  # a line that was cut short ends here

    def keep(self, number: int) -> tuple[int, int]:
        """Delete all but the newest backups, and what only they had; returns how many backups and bytes."""
        gone = self.complete()[:-number]
        for folder in gone:
            (folder / FILE).unlink()  # from now on it is no backup
            shutil.rmtree(folder)
        used = {each.sha256 for folder in self.complete() for each in listed(folder)}
        freed = 0
        for path in sorted((self.root / POOL).glob("*/*")):
            if path.name not in used:
                freed += path.stat().st_size
                path.unlink()
        left = [each for each in self.catalogue().values() if not each.sha256 or each.sha256 in used]
        write_whole(self.root / CATALOGUE, "".join(json.dumps(asdict(each)) + "\n" for each in left), 0o600)
        return len(gone), freed

    def _folders(self) -> list[Path]:
        return sorted(path for path in self.root.iterdir() if path.is_dir() and _is_time(path.name))


def chosen(source: Path) -> tuple[BackupFolder, Path]:
    """The directory and the backup that a person names: a backup, or a directory, whose newest it is.

    Raises NoBackup.
    """
    if (source / FILE).exists():
        return BackupFolder(source.resolve().parent), source.resolve()
    if not source.is_dir():
        raise NoBackup(f"{source} is no directory: name one that `sluice backup` wrote")
    if not (found := BackupFolder(source).complete()):
        raise NoBackup(f"{source} has no complete backup: a backup counts once it has a {FILE}")
    return BackupFolder(source), found[-1]


def listed(folder: Path) -> Iterator[PooledFile]:
    """HDFS's files of a backup."""
    with (folder / LISTED).open() as lines:
        for line in lines:
            yield PooledFile(**json.loads(line))


def _is_time(name: str) -> bool:
    try:
        datetime.strptime(name, NAME)
    except ValueError:
        return False
    return True
