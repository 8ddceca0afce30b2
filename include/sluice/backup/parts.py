"""Files of a backup: hashed while they are written, durable once they are closed, and compared later."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sluice.backup.manifest import BackupPart, DamagedBackup

CHUNK_BYTES = 1 << 20


class BackupUnwritable(RuntimeError):
    """A file of a backup cannot be written."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"{path} cannot be written ({error.strerror or error}): make room there, or take --keep with a "
            "smaller number. The earlier backups are as they were"
        )


class HashedFile:
    """A file that is being written. Only the owner can read it. Raises BackupUnwritable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)  # what a killed process left
        self._out = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._digest = hashlib.sha256()
        self.bytes = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        try:
            self._out.write(data)
        except OSError as error:
            raise BackupUnwritable(self._path, error) from error
        self._digest.update(data)
        self.bytes += len(data)
        return len(data)

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        """Close it once it is on disk."""
        if not self.closed:
            self.closed = True
            try:
                with self._out:
                    self._out.flush()
                    os.fsync(self._out.fileno())
            except OSError as error:
                raise BackupUnwritable(self._path, error) from error

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


class BackupParts:
    """The parts that were written so far, below a backup's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: list[BackupPart] = []

    @contextmanager
    def writing(self, path: str) -> Iterator[HashedFile]:
        """Write a part; it counts if nothing is raised."""
        out = HashedFile(self.folder / path)
        try:
            yield out
        finally:
            out.close()
        self.found.append(BackupPart(path, out.bytes, out.sha256))

    def add(self, path: str, data: bytes) -> None:
        with self.writing(path) as out:
            out.write(data)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.found)


def check_part(path: Path, length: int, sha256: str) -> None:
    """Raise DamagedBackup unless the file has this length and SHA-256."""
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        raise DamagedBackup(f"{path} is gone: this backup is not whole, use another one") from None
    if found != length or _sha256(path) != sha256:
        raise DamagedBackup(
            f"{path} is damaged: its bytes are not those that were written, use another backup"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return digest_of(file)


def digest_of(file: BinaryIO) -> str:
    """The SHA-256 of what is left of the file."""
    digest = hashlib.sha256()
    while data := file.read(CHUNK_BYTES):
        digest.update(data)
    return digest.hexdigest()
