"""What a projector wrote last, so that it writes only results that changed.

An entry is a 64-bit hash of one result: its series, its metric, its value and its error. The hash chooses the
entry's slot, too, so the bytes are bounded, and of two results with one slot the one that was written last
has it; the other is only written again. A result is taken for unchanged wrongly with a chance of 2^-64. For
a number without an error it is less: the hash of one series' values is one to one.

Entries hold as long as nobody else writes these cells, or what others still write lies below them in HBase.
That is why only what is stamped later than a *floor* commit becomes an entry:

- *Another projector of the topic* stamps its cells with commits of its own writer, or of those before it. A
  writer that another one overtook never commits again. So its cells lie below those stamped with commits that
  this process made after its first look; the floor is the newest commit at that time. A second writer that
  starts while the first one lives, and loses, may write with the time of the commit that it began with, which
  can be the time of an entry. `REWRITE_SECONDS` bounds what that leaves.
- *A backfill* stamps its cells a millisecond after the newest commit. Its topic's revision changes before and
  after it writes them. At each change the entries go, and the newest commit is the floor. Results of versions
  whose filled days are not projected yet are always written.
- *An own put that failed* may still arrive. The entries go, and the commit that it was stamped with is the
  floor. It is the same for what executors write, because blocks move between their processes.
- *Retention* deletes results of periods that no line came for in a day or longer. Entries are forgotten after
  `REWRITE_SECONDS`, so there are none of such a period.

So each result whose series is touched is written at least once in `REWRITE_SECONDS`, whatever happened.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection
from functools import partial
from hashlib import blake2b

import numpy as np
import polars as pl
import pyarrow as pa

from sluice.engine.results import Wanted
from sluice.metrics.base import Columns, Results
from sluice.runtime.arrays import Bools, Hashes, Ints
from sluice.storage.tables.commits import Version

#: Each result whose series is touched is written at least once in REWRITE_SECONDS.
REWRITE_SECONDS = 600.0
#: The table grows from FIRST_SLOTS to MOST_SLOTS slots of 8 bytes. While it can grow, it has at least ROOM
#: slots an entry.
FIRST_SLOTS, MOST_SLOTS = 1 << 16, 1 << 22
ROOM = 4


class Written:
    """The results that one topic's projector wrote last; used by one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots: Hashes = np.zeros(FIRST_SLOTS, np.uint64)
        self._entries = 0
        self._floor: int | None = None  # no entries before the first `renew`
        self._revision = 0
        self._due = clock() + REWRITE_SECONDS
        self._seed = secrets.randbits(64)

    @property
    def bytes(self) -> int:
        return self._slots.nbytes

    def forget(self, floor: int) -> None:
        """Drop all entries. Only what is stamped with a later commit than `floor` becomes an entry."""
        self._empty()
        self._floor = max(floor, self._floor or 0)

    def renew(self, revision: int, newest: Callable[[], int]) -> None:
        """Drop what others may have changed, as of the topic's revision of filled days, which was just read.

        newest: the newest commit by now.
        """
        if self._floor is None or revision != self._revision:
            self.forget(newest())
            self._revision = revision
        elif self._clock() > self._due:
            self._empty()

    def look(self, commit: int, unsettled: Collection[Version] = ()) -> ChangedResults:
        """Compare results that are stamped with this commit; those of `unsettled` versions always differ."""
        return ChangedResults(self, unsettled, kept=self._floor is not None and commit > self._floor)

    def same(self, rows: Hashes, marks: Hashes) -> Bools:
        found: Bools = self._slots[self._at(rows)] == marks
        return found

    def keep(self, rows: Hashes, marks: Hashes) -> None:
        at = self._at(rows)
        self._entries += int(np.count_nonzero(self._slots[at] == 0))
        self._slots[at] = marks
        if self._entries * ROOM > len(self._slots) and len(self._slots) < MOST_SLOTS:
            self._slots = np.zeros(len(self._slots) * ROOM, np.uint64)
            self._entries = 0

    def texts(self, texts: pa.Array) -> Hashes:
        """A hash of each text; nobody outside can foresee it."""
        return np.asarray(pl.Series("", texts).hash(self._seed).to_numpy(), np.uint64)

    def name(self, name: str) -> np.uint64:
        key = self._seed.to_bytes(8, "little")
        return np.uint64(int.from_bytes(blake2b(name.encode(), digest_size=8, key=key).digest(), "little"))

    def _at(self, rows: Hashes) -> Ints:
        return (rows & np.uint64(len(self._slots) - 1)).astype(np.int64)

    def _empty(self) -> None:
        self._slots.fill(0)
        self._entries = 0
        self._due = self._clock() + REWRITE_SECONDS


class ChangedResults:
    """The results of one table that differ from what was written; `engine.results` asks for them.

    They become entries by `keep`, once they are written.
    """

    def __init__(self, written: Written, unsettled: Collection[Version], kept: bool) -> None:
        self._written = written
        self._unsettled = unsettled
        self._kept = kept
        self._found: list[tuple[Hashes, Hashes]] = []

    def __call__(self, columns: Columns) -> Wanted | None:
        """Says which results of a metric differ; None if all of the version's are to be written.

        columns: one version's rows of PARTIALS.
        """
        version = columns["task_id"][0].as_py(), columns["version"][0].as_py()
        if not self._kept or version in self._unsettled:
            return None
        series = self._written.texts(columns["key"])
        series = _mixed(series ^ np.asarray(columns["period_start"]).view(np.uint64))
        return partial(self._differ, _mixed(series ^ self._written.name(f"{version[0]}v{version[1]}")))

    def keep(self) -> None:
        """The results that differed are in HBase now."""
        for rows, marks in self._found:
            self._written.keep(rows, marks)

    def _differ(self, series: Hashes, metric: str, found: Results, there: Ints) -> Bools:
        rows = _mixed(series[there] ^ self._written.name(metric))
        marks = self._marks(rows, found, there)
        new = ~self._written.same(rows, marks)
        self._found.append((rows[new], marks[new]))
        return new

    def _marks(self, rows: Hashes, found: Results, there: Ints) -> Hashes:
        """The hash of each result: `rows` and everything that its text and its error are made of."""
        if found.texts is not None:
            values = self._written.texts(found.texts.take(pa.array(there)))
        else:
            values = found.values[there].view(np.uint64)
            if found.integers is not None and found.exact is not None:
                exact = found.exact[there]
                values = np.where(exact, found.integers[there].view(np.uint64), values)
                rows = np.where(exact, ~rows, rows)
        marks = _mixed(rows ^ values)
        return marks if found.errors is None else _mixed(marks ^ found.errors[there].view(np.uint64))


def _mixed(values: Hashes) -> Hashes:
    """Each number mixed one to one, as splitmix64 does."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
