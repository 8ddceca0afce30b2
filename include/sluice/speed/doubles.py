"""Taking the doubles out of a micro-batch, against a ledger that is too large to send to every executor.

The executors decide by the intervals of a few files; the driver checks what they took for new against the
complete ledger, and where a byte was not new they decide again, knowing more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import pyarrow as pa

from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import Gathered

log = logging.getLogger(__name__)

#: One pass over the batch, given the intervals known (ByteLedger.to_table) and whether the lines are dealt
#: out by identity, so that those of one identity meet, rather than as they lie in Kafka.
Pass = Callable[[pa.Table, bool], Gathered]


def gather(run: Pass, ledger: ByteLedger, recent: Iterable[tuple[str, str]]) -> tuple[Gathered, ByteLedger]:
    """What the batch holds, doubles out, and the ledger of the files it touched with the batch added.

    recent: the files (host, src_file) that the batch most likely has lines of.

    The first pass knows those only. If it took bytes for new that the ledger has, or that two of its slices
    both have, the second knows every file of the batch: one is in `recent`, or its lines were taken for new
    and so it is among those found.
    """
    recent = set(recent)
    found = run(ledger.only(recent).to_table(), False)
    added, disjoint = _added(ledger, found)
    if disjoint:
        return found, added
    log.info("doubles of another file or partition: the batch is read again")
    found = run(ledger.only(recent | set(added.files())).to_table(), True)
    added, disjoint = _added(ledger, found)
    if not disjoint:  # nothing that was collected from a file that only grows
        log.warning("lines of %s begin inside other lines: each was counted", sorted(added.files())[:5])
    return found, added


def _added(ledger: ByteLedger, found: Gathered) -> tuple[ByteLedger, bool]:
    """The ledger of the files found with the new intervals, and whether every byte was new."""
    fresh = [ByteLedger.from_table(table) for table in found.seen]
    added = ledger.only({file for part in fresh for file in part.files()})
    before = _bytes(added)
    for part in fresh:
        added.update(part)
    return added, _bytes(added) - before == sum(map(_bytes, fresh))


def _bytes(ledger: ByteLedger) -> int:
    return sum(ledger.covered(*file) for file in ledger.files())
