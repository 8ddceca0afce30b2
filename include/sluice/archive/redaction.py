"""Erases lines in a partition's archive: each file that has some is replaced by one that has them redacted.

A rewritten file is a merge of one (`archive.merging`): its name replaces the old one at the instant of its
rename, and the index follows in one transaction, in which the sums become less, too
(`storage.tables.erasures`). A run that died is gone on with by the next one, from what stands.

The old files have the lines, so they go as soon as nobody can claim their names again: no reader is waited
for. One that had listed them finds them gone, and its next try lists again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlalchemy as sa

from sluice.archive import indexing, layout
from sluice.archive.claim import LOOK_AGAIN_SECONDS, STALE_SECONDS, Claims
from sluice.archive.compaction import PartsChanged
from sluice.archive.contents import check_contents
from sluice.archive.file import ArchivedPartition, ArchiveFile, now_ms
from sluice.archive.footer import Footer, of_opened
from sluice.archive.merging import merged
from sluice.runtime.crash_points import crash_point
from sluice.storage.hdfs import HdfsError, HdfsFile
from sluice.storage.tables import erasures
from sluice.storage.tables.erasures import ErasureNote, Erasures, FileErasure
from sluice.transmission.line_schema import LINE_IN_RECORD, UNREADABLE
from sluice.transmission.redacted import are_redacted

log = logging.getLogger(__name__)

#: A file that is older is claimed by nobody again once it is gone: a writer that looked at the directory
#: before it was there looks again, and what it wrote aside before that is deleted first (ADR 0083).
SETTLED_MS = round((LOOK_AGAIN_SECONDS + STALE_SECONDS) * 1000)


class LineEraser(Protocol):
    """Redacts lines of one file, which come in order, a table (COLUMNS) at a time, and accounts for them."""

    def __call__(self, lines: pa.Table) -> pa.Table: ...

    @property
    def account(self) -> FileErasure:
        """Of all lines so far."""
        ...


@dataclass(frozen=True)
class SweptFiles:
    """How many old files are gone, and how many cannot go yet. waits_ms: until the last of them can."""

    deleted: int = 0
    waiting: int = 0
    waits_ms: int = 0


class PartitionRedaction:
    """An erasure's work in one partition. Only one process may do it at a time (`compaction.alone`)."""

    def __init__(
        self,
        database: sa.Engine,
        place: ArchivedPartition,
        claims: Claims,
        erasure: int,
        tell: Callable[[str], None] = log.info,
    ) -> None:
        self._database, self._place, self._claims = database, place, claims
        self._erasure, self._tell = erasure, tell
        self._book = Erasures(database)

    def standing(self) -> dict[int, HdfsFile]:
        """The chain's files by their first offset, once what an earlier run began is ended.

        Raises BrokenChain, UnreadableArchiveFile, HdfsError, HdfsUnavailable.
        """
        indexing.reconcile(self._database, self._claims, self._place)
        for note in self._book.notes(self._place.topic, self._place.topic_id, self._place.partition):
            self._settle(note)
        with self._database.connect() as connection:
            begins = indexing.begins(connection, self._place)
        return self._claims.standing().since(begins).files

    def redact(self, file: HdfsFile, eraser: LineEraser) -> FileErasure:
        """Erase lines in a file that stands; nothing is written if it has none.

        Raises PartsChanged, UnreadableArchiveFile, HdfsError, HdfsUnavailable.
        """
        path = self._claims.named(file.name)
        revision = layout.revision_of(file.name) + 1
        made = merged([(path, self._claims.opened(file))], eraser, revision=revision)
        account = eraser.account
        if not account.lines:
            return account
        said, place = made.footer, self._place
        note = ErasureNote(
            self._erasure, place.topic, place.topic_id, place.partition, said.first, said.claim, account
        )
        self._book.note(note)
        crash_point("erasure_noted")
        stands, length = self._claims.publish(made, lambda: self._check(made, file, note))
        if stands.claim != said.claim:
            self._book.forget(note)
            raise self._changed(said)
        self._index(note, stands, length)
        crash_point("archive_redacted")
        self._tell(f"{place}: {account.lines:,} lines of offsets {said.first} to {said.next - 1} are erased")
        return account

    def sweep(self) -> SweptFiles:
        """Delete the files that redacted ones replaced, and copies of damaged ones: they may have such lines.

        Raises UnreadableArchiveFile where a redacted file is not sound: then nothing of it is deleted.
        """
        self._claims.clean()  # first: a sleeper must not claim a name that is free after this (ADR 0083)
        rows = indexing.rows_of(self._database, self._place)
        deleted, waiting, waits = 0, 0, 0
        sound: set[str] = set()
        for each in self._claims.standing().replaced:
            row = rows.get(layout.first_of(each.by.name) or 0)
            if not layout.revision_of(each.by.name) or row is None:
                continue
            if (left := each.file.modified + SETTLED_MS - now_ms()) > 0:
                waiting, waits = waiting + 1, max(waits, left)
                continue
            if each.by.name not in sound:
                path, opened = self._claims.named(each.by.name), self._claims.opened(each.by)
                check_contents(path, opened, of_opened(path, opened))
                sound.add(each.by.name)
            if self._claims.footer(each.file).next > row.next:
                raise HdfsError(
                    f"{self._claims.named(each.file.name)} begins within {each.by.name} and ends behind it: "
                    "move the one that does not belong there (restored, copied or written by hand) out of "
                    "the directory"
                )
            deleted += self._claims.delete(each.file)
            crash_point("archive_replaced_deleted")
        deleted += sum(self._claims.delete(each) for each in self._claims.damaged())
        return SweptFiles(deleted, waiting, waits)

    def _settle(self, note: ErasureNote) -> None:
        """End what a run began that died: book its note if its file stands, else forget it."""
        file = self._claims.standing().files.get(note.first)
        footer = self._claims.footer(file) if file is not None else None
        if file is not None and footer is not None and footer.claim == note.claim:
            self._index(note, footer, file.length)
        else:
            self._book.forget(note)

    def _index(self, note: ErasureNote, footer: Footer, length: int) -> None:
        """Index the new file, and take its lines from the sums; one transaction."""
        path = self._claims.named(footer.name)
        file = HdfsFile(footer.name, length, 0, False)
        places = redacted_places(self._claims.opened(file), note.erasure_id)
        with self._database.begin() as connection:
            erasures.hold(connection)
            indexing.put_instead(connection, footer, length, path)
            erasures.book(connection, note, places)

    def _check(self, made: ArchiveFile, file: HdfsFile, note: ErasureNote) -> None:
        """Raise PartsChanged if another file stands now, or if another run took the note for a dead one's."""
        now = self._claims.standing().files.get(made.footer.first)
        notes = self._book.notes(note.topic, note.topic_id, note.partition)
        if now is None or (now.name, now.length) != (file.name, file.length) or note not in notes:
            raise self._changed(made.footer)

    def _changed(self, said: Footer) -> PartsChanged:
        return PartsChanged(
            f"{self._place}: the file of offsets {said.first} to {said.next - 1} changed while lines were "
            "erased in it, so it was left alone: run the command once more"
        )


def redacted_places(opened: pa.NativeFile, erasure: int) -> set[tuple[int, int]]:
    """Where a file has lines that this erasure redacted: (offset, line_in_record)."""
    found: set[tuple[int, int]] = set()
    with pq.ParquetFile(opened) as file:
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, ["offset", LINE_IN_RECORD, UNREADABLE], use_threads=False)
            own = table.filter(pa.array(are_redacted(table)))
            mine = own.filter(pc.match_substring_regex(own.column(UNREADABLE), rf"erasure {erasure}(,|$)"))
            places: Mapping[str, list[int]] = mine.select(["offset", LINE_IN_RECORD]).to_pydict()
            found |= set(zip(places["offset"], [at or 0 for at in places[LINE_IN_RECORD]], strict=True))
    return found
