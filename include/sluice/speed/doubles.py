"""Removes a micro-batch's doubles by a ledger that is too large for every executor.

The executors know the intervals of a few files only. The driver checks what they took for new against the
complete ledger. If a byte was not new, the executors decide again, with the intervals of more files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from sluice.speed.ledger import INTERVALS, ByteLedger
from sluice.speed.partition_pass import Gathered

log = logging.getLogger(__name__)

#: One pass over the batch. Its arguments are the known intervals (ByteLedger.to_table), and whether the lines
#: are dealt out by file, so that copies of a line meet, instead of staying as they lie in Kafka.
Pass = Callable[[pa.Table, bool], Gathered]


def gather(run: Pass, ledger: ByteLedger, recent: Iterable[tuple[str, str]]) -> tuple[Gathered, ByteLedger]:
    """The batch without its doubles, and the ledger of its files with the batch added.

    recent: the files (host, src_file) that the batch most likely has lines of.

    The first pass knows only the intervals of these files. If it took bytes for new that the ledger has, or
    that two of its slices both have, a second pass knows every file of the batch. Each of them is either in
    `recent` or among the files found, because its lines were taken for new.
    """
    recent = set(recent)
    found = run(ledger.only(recent).to_table(), False)
    added, disjoint = _added(ledger, found)
    if disjoint:
        return found, added
    log.info("doubles of another file or partition: the batch is read again")
    found = run(ledger.only(recent | set(added.files())).to_table(), True)
    added, disjoint = _added(ledger, found)
    if not disjoint:  # impossible for lines collected from files that only grow
        log.warning("lines of %s begin inside other lines: each was counted", sorted(added.files())[:5])
    return found, added


def _added(ledger: ByteLedger, found: Gathered) -> tuple[ByteLedger, bool]:
    """The ledger of the files found, new intervals included, and whether every byte was new.

    All slices are put together first: a thousand of them may have the same thousand files.
    """
    seen = pa.concat_tables([INTERVALS.empty_table(), *found.seen])
    fresh = ByteLedger.from_table(seen)
    claimed = pc.sum(pc.subtract(seen["end"], seen["start"]), min_count=0).as_py()
    added = ledger.only(fresh.files())
    before = _bytes(added)
    added.update(fresh)
    return added, _bytes(added) - before == claimed


def _bytes(ledger: ByteLedger) -> int:
    return sum(ledger.covered(*file) for file in ledger.files())
