"""HDFS's files into the pool of a backup, and out of it again.

A file is never changed under its name: the archive's files are claims, and each computation of a day has a
directory of its own. So one that the pool has under the same name, length and end is not copied again. The
end of a Parquet file is its footer, with the token of the claim in it: a file that `sluice archive repair`
wrote in another's place differs there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sluice.archive import footer as footers
from sluice.archive.footer import TAIL_BYTES, UnreadableArchiveFile
from sluice.archive.layout import first_of
from sluice.backup.folder import BackupFolder, PooledFile
from sluice.storage.hdfs import HdfsFile, HdfsFileNotFound
from sluice.storage.stores import Store

Say = Callable[[str], None]
#: At once in memory.
READ_BYTES = 8 << 20
MIB = 1 << 20
#: Files that are copied and not in the catalogue yet; what is lost of it is copied again.
NOTED = 64
#: Names that begin so are temporary, or set aside.
HIDDEN = (".", "_temporary")


class FileCutShort(RuntimeError):
    """A file of HDFS had other bytes than its listing said."""


@dataclass
class HdfsCopier:
    """Copies trees of one HDFS into one pool. Each is as of its last `copy`."""

    store: Store
    folder: BackupFolder
    copied: int = 0  # files
    copied_bytes: int = 0
    trees: dict[str, list[PooledFile]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    _seen: dict[str, tuple[HdfsFile, PooledFile]] = field(default_factory=dict)
    _catalogue: dict[str, PooledFile] | None = None
    _new: list[PooledFile] = field(default_factory=list)

    def copy(self, root: str, say: Say) -> list[PooledFile]:
        """Copy what the pool lacks of the tree; returns all of its files.

        A file that is deleted meanwhile is left out. One of the archive that its footer denies is copied as
        it is, and named in `problems`. Raises HdfsError, HdfsUnavailable, FileCutShort.
        """
        found: list[PooledFile] = []
        try:
            for path, file in walk(self.store, root):
                try:
                    found.append(self._file(path, file))
                except HdfsFileNotFound:
                    continue
                say(f"{len(found):,} files, {self.copied:,} copied, {shown(self.copied_bytes)}")
        finally:
            self._note()
        self.trees[root] = found
        return found

    def files(self) -> Iterator[PooledFile]:
        for found in self.trees.values():
            yield from found

    def _file(self, path: str, file: HdfsFile) -> PooledFile:
        if file.directory:
            return PooledFile(path, 0, "", "")
        before = self._seen.get(path)
        if before is not None and before[0] == file:
            return before[1]
        tail = self._tail(path, file)
        known = self._known().get(path)
        if known is None or (known.bytes, known.tail) != (file.length, tail) or not self._pooled(known):
            known = self._copied(path, file, tail)
        self._seen[path] = file, known
        return known

    def _tail(self, path: str, file: HdfsFile) -> str:
        size = min(file.length, TAIL_BYTES)
        data = self.store.read(path, file.length - size, size) if size else b""
        if first_of(file.name) is not None:
            needed = int.from_bytes(data[-8:-4], "little") + 8
            if size and needed > size:
                data = self.store.read(path, max(0, file.length - needed), min(needed, file.length))
            self._check(path, data)
        return hashlib.sha256(data).hexdigest()

    def _check(self, path: str, tail: bytes) -> None:
        try:
            if footers.parse(path, tail).first != first_of(Path(path).name):
                raise UnreadableArchiveFile(path, "its footer says that it begins at another offset")
        except UnreadableArchiveFile as error:
            self.problems[path] = str(error)

    def _copied(self, path: str, file: HdfsFile, tail: str) -> PooledFile:
        incoming = self.folder.incoming()
        try:
            for offset in range(0, file.length, READ_BYTES):
                incoming.write(self.store.read(path, offset, min(READ_BYTES, file.length - offset)))
        finally:
            incoming.close()
        if incoming.bytes != file.length:
            raise FileCutShort(
                f"{path}: {incoming.bytes} of {file.length} bytes came. See `sluice archive verify --deep`, "
                "and take the backup again"
            )
        made = PooledFile(path, file.length, tail, self.folder.join(incoming))
        self.copied, self.copied_bytes = self.copied + 1, self.copied_bytes + file.length
        self._known()[path] = made
        self._new.append(made)
        if len(self._new) >= NOTED:
            self._note()
        return made

    def _known(self) -> dict[str, PooledFile]:
        if self._catalogue is None:
            self._catalogue = self.folder.catalogue()
        return self._catalogue

    def _pooled(self, known: PooledFile) -> bool:
        path = self.folder.pooled(known.sha256)
        return path.exists() and path.stat().st_size == known.bytes

    def _note(self) -> None:
        some, self._new = self._new, []
        if some:
            self.folder.note(some)


def walk(store: Store, root: str) -> Iterator[tuple[str, HdfsFile]]:
    """All files below a directory, and the directories that have none; hidden ones are left out."""
    for file in store.list(root):
        if file.name.startswith(HIDDEN):
            continue
        path = f"{root}/{file.name}"
        if not file.directory:
            yield path, file
            continue
        below = walk(store, path)
        yield next(below, (path, file))
        yield from below


def put_back(store: Store, folder: BackupFolder, file: PooledFile) -> None:
    """Write a file of the pool into HDFS. Raises HdfsError, HdfsUnavailable."""
    if not file.sha256:
        store.make_directory(file.path)
        return
    store.make_directory(str(Path(file.path).parent))
    store.upload(file.path, folder.pooled(file.sha256))


def shown(size: int) -> str:
    return f"{size / MIB:,.1f} MiB"
