"""Publishes a file: writes it aside, then renames it without overwriting another.

The name is the claim. Of two writers that hold the same offsets exactly one rename succeeds, no matter what
either believes about its ownership. So no harm comes from a process that slept through a rebalance, from a
doubled archiver, or from a request that HDFS carries out long after its sender gave up. The chain of names
has no branches, so the loser drops its data and goes on from what stands.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable

import pyarrow as pa

from sluice.archive import footer as footers
from sluice.archive import layout
from sluice.archive.file import ArchiveFile, now_ms
from sluice.archive.footer import Footer
from sluice.archive.standing import StandingFiles, standing
from sluice.runtime.crash_points import crash_point
from sluice.storage.hdfs import HdfsError, HdfsFile, HdfsUnavailable
from sluice.storage.parquet import Ranged
from sluice.storage.stores import Store

log = logging.getLogger(__name__)

# A temporary file this old belongs to no attempt that is still under way: the longest attempt, 64 MiB through
# a busy DataNode with every retry, takes less than a minute.
STALE_SECONDS = 600.0
# A writer that looked at the directory, or published, longer ago than this looks again before it publishes:
# its offsets may be in a merged file now. Compaction leaves alone what is younger than a day.
LOOK_AGAIN_SECONDS = 600.0


class Claims:
    """One writer's claims in one partition's directory."""

    def __init__(self, store: Store, directory: str) -> None:
        self._store = store
        self._directory = directory
        self._writer = secrets.token_hex(6)
        self._attempts = 0
        self._made = False
        self._looked = 0.0

    def standing(self) -> StandingFiles:
        """The archive files that stand, and those that merged ones replace."""
        self._looked = time.time()  # not the monotonic clock, which may stand still while a machine sleeps
        return standing(self._store.list(self._directory))

    def files(self) -> list[HdfsFile]:
        """The archive files that stand, oldest first."""
        return list(self.standing().files.values())

    def footer(self, file: HdfsFile) -> Footer:
        return footers.read(self._store, self._directory, file)

    def opened(self, file: HdfsFile) -> pa.PythonFile:
        """A file to read parts of. HDFS holds each against its checksum: HdfsUnavailable, HdfsError."""
        return pa.PythonFile(Ranged(self._store, self.named(file.name), file.length), mode="r")

    def path(self, first: int) -> str:
        """The path of the archiver's file from that offset on."""
        return self.named(layout.file_name(first))

    def named(self, name: str) -> str:
        """The path of the file of that name."""
        return f"{self._directory}/{name}"

    def publish(self, file: ArchiveFile, check: Callable[[], None] = lambda: None) -> tuple[Footer, int]:
        """Claim the file's name once; returns the footer and bytes of what then stands there.

        check: raises if the file must not be claimed any more; it is asked at the last moment.

        This may be another writer's file: compare the footer's `claim` with the file's own to know who won.
        HdfsUnavailable leaves open whether the claim succeeded: publish the same file again to find out.
        """
        name = file.footer.name
        if (stands := self._stands(name)) is not None:
            return stands
        self._attempts += 1
        temporary = self.named(layout.temporary_name(self._writer, self._attempts, file.footer.first))
        if not self._made:
            self._store.make_directory(self._directory)
            self._made = True
        self._store.write(temporary, file.data)
        crash_point("archive_before_rename")
        # Only now: whoever deletes replaced files first deletes the temporary ones of before (`clean`).
        if layout.next_of(name) is None and (over := self._over(file.footer.first)) is not None:
            self._discard(temporary)
            return over
        check()
        if self._store.rename(temporary, self.named(name)):
            self._looked = time.time()
            crash_point("archive_after_rename")
            return file.footer, len(file.data)
        stands = self._stands(name)
        if stands is None:
            # Nothing stands there and nothing was renamed: our temporary file was taken away (by a cleaner,
            # after we slept for longer than STALE_SECONDS). The next attempt writes another.
            raise HdfsUnavailable(f"{temporary} vanished before it could be renamed; it is written again")
        self._discard(temporary)
        return stands

    def _stands(self, name: str) -> tuple[Footer, int] | None:
        """The footer of the file of that name, and its bytes; None without it."""
        status = self._store.status(self.named(name))
        if status is None:
            return None
        named = HdfsFile(name, status.length, status.modified, status.directory)
        return self.footer(named), status.length

    def _over(self, first: int) -> tuple[Footer, int] | None:
        """The footer and bytes of a merged file that has this offset, if there may be one."""
        if time.time() - self._looked <= LOOK_AGAIN_SECONDS:
            return None
        found = self.standing().over(first)
        return None if found is None else (self.footer(found), found.length)

    def set_aside(self, name: str) -> str:
        """Take a damaged file out of the archive, and keep it; returns its new path."""
        kept = self.named(layout.damaged_name(layout.first_of(name) or 0, now_ms()))
        if not self._store.rename(self.named(name), kept):
            raise HdfsError(f"{self.named(name)} cannot be renamed to {kept}")
        return kept

    def delete(self, file: HdfsFile) -> bool:
        """Delete an archive file for good; False if it is gone already. Raises HdfsError, HdfsUnavailable."""
        return self._store.delete(self.named(file.name))

    def damaged(self) -> list[HdfsFile]:
        """The files that were set aside."""
        return [each for each in self._store.list(self._directory) if layout.is_damaged(each.name)]

    def clean(self) -> int:
        """Delete dead writers' temporary files older than STALE_SECONDS; returns how many."""
        stale = 0
        for file in self._store.list(self._directory):
            writer = layout.writer_of(file.name)
            old = now_ms() - file.modified > STALE_SECONDS * 1000
            if writer is not None and writer != self._writer and old:
                stale += self._discard(self.named(file.name))
        return stale

    def _discard(self, path: str) -> bool:
        try:
            return self._store.delete(path)
        except (HdfsError, HdfsUnavailable) as error:
            log.info("left behind, to be cleaned later: %s", error)
            return False
