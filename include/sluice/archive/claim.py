"""Publishes a file: writes it aside, then renames it without overwriting another.

The name is the claim. Of two writers that hold the same offsets exactly one rename succeeds, no matter what
either believes about its ownership. So no harm comes from a process that slept through a rebalance, from a
doubled archiver, or from a request that HDFS carries out long after its sender gave up. The chain of names
has no branches, so the loser drops its data and goes on from what stands.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

from sluice.archive import footer as footers
from sluice.archive import layout
from sluice.archive.file import ArchiveFile, now_ms
from sluice.archive.footer import Footer
from sluice.runtime.crash_points import crash_point
from sluice.storage.hdfs import HdfsError, HdfsFile, HdfsStore, HdfsUnavailable

log = logging.getLogger(__name__)

# A temporary file this old belongs to no attempt that is still under way: the longest attempt, 64 MiB through
# a busy DataNode with every retry, takes less than a minute.
STALE_SECONDS = 600.0


class Claims:
    """One writer's claims in one partition's directory."""

    def __init__(self, store: HdfsStore, directory: str) -> None:
        self._store = store
        self._directory = directory
        self._writer = secrets.token_hex(6)
        self._attempts = 0
        self._made = False

    def files(self) -> list[HdfsFile]:
        """The archive files that stand, oldest first; temporary and foreign ones left out."""
        return [file for file in self._store.list(self._directory) if layout.first_of(file.name) is not None]

    def footer(self, file: HdfsFile) -> Footer:
        return footers.read(self._store, self._directory, file)

    def contents(self, file: HdfsFile) -> bytes:
        """All of a file. HDFS holds each part against its checksum; raises HdfsUnavailable, HdfsError."""
        return self._store.read(f"{self._directory}/{file.name}")

    def path(self, first: int) -> str:
        return f"{self._directory}/{layout.file_name(first)}"

    def publish(self, file: ArchiveFile, check: Callable[[], None] = lambda: None) -> tuple[Footer, int]:
        """Claim the file's name once; returns the footer and bytes of what then stands there.

        check: raises if the file must not be claimed any more; it is asked at the last moment.

        This may be another writer's file: compare the footer's `claim` with the file's own to know who won.
        HdfsUnavailable leaves open whether the claim succeeded: publish the same file again to find out.
        """
        standing = self.standing(file.footer.first)
        if standing is not None:
            return standing
        self._attempts += 1
        temporary = (
            f"{self._directory}/{layout.temporary_name(self._writer, self._attempts, file.footer.first)}"
        )
        if not self._made:
            self._store.make_directory(self._directory)
            self._made = True
        self._store.write(temporary, file.data)
        crash_point("archive_before_rename")
        check()
        if self._store.rename(temporary, self.path(file.footer.first)):
            crash_point("archive_after_rename")
            return file.footer, len(file.data)
        standing = self.standing(file.footer.first)
        if standing is None:
            # Nothing stands there and nothing was renamed: our temporary file was taken away (by a cleaner,
            # after we slept for longer than STALE_SECONDS). The next attempt writes another.
            raise HdfsUnavailable(f"{temporary} vanished before it could be renamed; it is written again")
        self._discard(temporary)
        return standing

    def standing(self, first: int) -> tuple[Footer, int] | None:
        """The footer of the file that holds the claim on `first`, and its bytes; None without it."""
        status = self._store.status(self.path(first))
        if status is None:
            return None
        named = HdfsFile(layout.file_name(first), status.length, status.modified, status.directory)
        return self.footer(named), status.length

    def set_aside(self, first: int) -> str:
        """Take a damaged file out of the archive, and keep it; returns its new path."""
        kept = f"{self._directory}/{layout.damaged_name(first, now_ms())}"
        if not self._store.rename(self.path(first), kept):
            raise HdfsError(f"{self.path(first)} cannot be renamed to {kept}")
        return kept

    def clean(self) -> int:
        """Delete dead writers' temporary files older than STALE_SECONDS; returns how many."""
        stale = 0
        for file in self._store.list(self._directory):
            writer = layout.writer_of(file.name)
            old = now_ms() - file.modified > STALE_SECONDS * 1000
            if writer is not None and writer != self._writer and old:
                stale += self._discard(f"{self._directory}/{file.name}")
        return stale

    def _discard(self, path: str) -> bool:
        try:
            return self._store.delete(path)
        except (HdfsError, HdfsUnavailable) as error:
            log.info("left behind, to be cleaned later: %s", error)
            return False
