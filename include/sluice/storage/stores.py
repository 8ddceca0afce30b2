"""Where the files of a URL are: in HDFS, or on this machine (for tests and benches)."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsFile, HdfsStore

HDFS, LOCAL = "hdfs", ("", "file")


class Store(Protocol):
    """Whole files in, and any part of them out, by absolute paths (see HdfsStore)."""

    def status(self, path: str) -> HdfsFile | None: ...

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes: ...

    def write(self, path: str, data: bytes) -> None: ...

    def upload(self, path: str, source: Path) -> None: ...

    def rename(self, source: str, target: str) -> bool: ...

    def delete(self, path: str, *, recursive: bool = False) -> bool: ...

    def make_directory(self, path: str) -> None: ...

    def list(self, path: str) -> Sequence[HdfsFile]: ...


@dataclass(frozen=True)
class Stores:
    """The stores that URLs can name. It is plain data, so that Spark's workers get it with their work."""

    webhdfs: str = ""
    user: str = ""

    @classmethod
    def of(cls, settings: Settings) -> Stores:
        return cls(settings.hdfs.webhdfs, settings.hdfs.user)

    def at(self, url: str) -> tuple[Store, str]:
        """The store of a URL or of a local path, and the path in it. Raises ValueError for other schemes."""
        parts = urlsplit(url)
        if parts.scheme == HDFS:
            return _hdfs(self.webhdfs, self.user), parts.path
        if parts.scheme in LOCAL:
            return LocalStore(), unquote(parts.path) if parts.scheme else url
        raise ValueError(f"{url}: neither hdfs: nor file:")


@functools.cache
def _hdfs(webhdfs: str, user: str) -> HdfsStore:
    return HdfsStore(webhdfs, user)  # one a process, because it keeps its connections


class LocalStore:
    """Files of this machine; behaves like HdfsStore."""

    def status(self, path: str) -> HdfsFile | None:
        return _entry(Path(path)) if os.path.lexists(path) else None

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        with Path(path).open("rb", buffering=0) as file:
            file.seek(offset)
            return file.read(-1 if length is None else length)

    def write(self, path: str, data: bytes) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def upload(self, path: str, source: Path) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

    def rename(self, source: str, target: str) -> bool:
        if not Path(source).exists() or Path(target).exists():
            return False
        Path(source).rename(target)
        return True

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        target = Path(path)
        if not target.exists():
            return False
        if not target.is_dir():
            target.unlink()
        elif recursive:
            shutil.rmtree(target)
        else:
            target.rmdir()
        return True

    def make_directory(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def list(self, path: str) -> Sequence[HdfsFile]:
        there = Path(path)
        return [_entry(each) for each in sorted(there.iterdir())] if there.exists() else []


def _entry(path: Path) -> HdfsFile:
    found = path.stat()
    return HdfsFile(path.name, found.st_size, found.st_mtime_ns // 1_000_000, path.is_dir())
