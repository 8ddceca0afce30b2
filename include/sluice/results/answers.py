"""Small answers that were merged from many series: the same question, asked again, is answered once.

An answer is known by its question and by all that it was read from: the final blocks, the state of each open
period, the commit. So what is kept is never out of date, and a question finds it only until the next commit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

import pyarrow as pa

from sluice.results.query import Query
from sluice.runtime.arrays import Ints
from sluice.runtime.lru_cache import LruCache
from sluice.storage.tables.finals import Sides
from sluice.tasks.spec import ActiveTask

#: Answers that are kept, together; and the largest one that is shared.
ANSWERS_BYTES, ANSWER_BYTES = 32 << 20, 4 << 20


class PeriodsRead(NamedTuple):
    """Periods that an answer read: their starts (ms), the codes of their states, and where they are from."""

    starts: Ints
    codes: Ints
    commit: int
    run_id: str


class FirstBatches(NamedTuple):
    """The first batches of an answer, what was seen until then, and whether that is all."""

    batches: list[pa.RecordBatch]
    seen: list[PeriodsRead]
    whole: bool

    @property
    def bytes(self) -> int:
        arrays = sum(each.starts.nbytes + each.codes.nbytes for each in self.seen)
        return arrays + sum(int(batch.nbytes) for batch in self.batches)


class Answers:
    """Answers that were made last. May be shared between threads."""

    def __init__(self, most: int = ANSWERS_BYTES) -> None:
        # One that is not whole has more than is kept.
        self._kept: LruCache[Hashable, FirstBatches] = LruCache(
            lambda made: made.bytes if made.whole else most + 1, most
        )

    def of(
        self, key: Hashable, batches: Iterator[pa.RecordBatch], seen: list[PeriodsRead]
    ) -> Iterator[pa.RecordBatch]:
        """The answer's batches: those of an equal answer, kept or under way, or `batches` themselves.

        `seen` is filled as the batches are read. Threads that ask for the same wait for the first of them,
        until its answer is whole or too large to be shared.
        """
        ours = list[FirstBatches]()

        def begin() -> FirstBatches:
            ours.append(_begun(batches, seen))
            return ours[0]

        made = self._kept.made(key, begin)
        if made.whole and not ours:
            seen += made.seen
        if made.whole or ours:
            yield from made.batches
        if not made.whole:
            yield from batches


def _begun(batches: Iterator[pa.RecordBatch], seen: list[PeriodsRead]) -> FirstBatches:
    first, size = list[pa.RecordBatch](), 0
    for batch in batches:
        first.append(batch)
        size += batch.nbytes
        if size > ANSWER_BYTES:
            return FirstBatches(first, [], whole=False)
    return FirstBatches(first, list(seen), whole=True)


def key_of(task: ActiveTask, query: Query, sides: Sides) -> Hashable:
    """What names an answer for ever."""
    question = query.model_copy(update={"tasks": (), "order": (), "limit": None, "offset": 0})
    state = tuple((p.period_start, p.layout, p.since, p.seq) for p in sides.state.values())
    filled = tuple((start, *((b.row, b.column) for b in own)) for start, own in sides.filled.items())
    blocks = tuple(
        (each.first, each.until, each.run_id, *(block.row for block in each.blocks)) for each in sides.final
    )
    read_from = sides.head, sides.superseded, blocks, sides.open, sides.recounted, state, filled
    return task.label, question.model_dump_json(), read_from
