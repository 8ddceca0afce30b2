"""Which of a partition's files stand: a merged file replaces those that it was made of, by its name alone.

So one rename replaces them all at once, for whoever lists the directory. The replaced ones are kept for those
who listed them before, and are deleted later (`archive.compaction`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from sluice.archive import layout
from sluice.storage.hdfs import HdfsFile


@dataclass(frozen=True)
class ReplacedFile:
    """A file whose offsets begin within a merged one that stands."""

    file: HdfsFile
    by: HdfsFile


@dataclass(frozen=True)
class StandingFiles:
    """A partition's archive files by their first offset, in order, and those that are replaced."""

    files: dict[int, HdfsFile]
    replaced: tuple[ReplacedFile, ...]

    def since(self, begins: int) -> StandingFiles:
        """Those from this position on: where the chain begins, after retention took what came before."""
        kept = {first: file for first, file in self.files.items() if first >= begins}
        by = set(kept.values())
        return StandingFiles(kept, tuple(each for each in self.replaced if each.by in by))

    @cached_property
    def _firsts(self) -> list[int]:
        return list(self.files)

    def over(self, offset: int) -> HdfsFile | None:
        """The merged file that has this offset; None without one."""
        before = bisect_right(self._firsts, offset)
        found = self.files[self._firsts[before - 1]] if before else None
        return found if found is not None and (layout.next_of(found.name) or 0) > offset else None


def standing(listed: Iterable[HdfsFile]) -> StandingFiles:
    """Tell the files apart by their names; temporary and foreign ones are left out."""
    named = [(first, file) for file in listed if (first := layout.first_of(file.name)) is not None]
    # Of two that begin at the same offset the one that reaches farther stands: nobody merges one into less.
    # Of two that have the same offsets the later revision does: lines were erased in it.
    named.sort(
        key=lambda each: (each[0], -(layout.next_of(each[1].name) or 0), -layout.revision_of(each[1].name))
    )
    files: dict[int, HdfsFile] = {}
    replaced: list[ReplacedFile] = []
    newest: HdfsFile | None = None
    reach = 0
    for first, file in named:
        if newest is not None and first < reach:
            replaced.append(ReplacedFile(file, newest))
            continue
        files[first] = file
        if (following := layout.next_of(file.name)) is not None:
            newest, reach = file, following
    return StandingFiles(files, tuple(replaced))
