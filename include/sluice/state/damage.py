"""Looks for the blocks that HBase lost or damaged, once a read of the state has failed.

Who reads the state meets the first such block. This names all of them, so that their periods are set aside at
once (`storage.tables.recounts`), and the rest is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluice.state.backfilled import BackfillMissing, read_blocks
from sluice.state.blocks import BadBlock, BlockId, unpack
from sluice.state.deltas import block_bytes
from sluice.state.portions import BYTES_A_GET, portions
from sluice.state.state import (
    ATTEMPTS,
    BlockMissing,
    Content,
    all_blocks,
    check,
    read_rows,
)
from sluice.storage.hbase import HBase
from sluice.storage.tables.backfills import BackfillPointer
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.epochs import PeriodKey, Snapshot
from sluice.storage.tables.recounts import BlockDamage

#: What a damaged block raises where it is read.
DAMAGE = (BlockMissing, BadBlock, BackfillMissing)


def damaged(log: CommitLog, hbase: HBase, wanted: Iterable[PeriodKey]) -> list[BlockDamage]:
    """The periods with a committed block of the speed layer that cannot be read; one for each."""
    keys = sorted(wanted)
    for _ in range(ATTEMPTS):
        snapshot = log.snapshot(keys)
        found = _looked_at(hbase, snapshot)
        if not found or log.newest() == snapshot.head:
            return [found[key] for key in sorted(found)]
        keys = sorted(found)  # a commit that came meanwhile may have replaced what was looked for
    raise RuntimeError(f"commits kept changing {len(keys)} periods whose blocks were looked for")


def _looked_at(hbase: HBase, snapshot: Snapshot) -> dict[PeriodKey, BlockDamage]:
    found: dict[PeriodKey, BlockDamage] = {}
    blocks = portions(
        all_blocks(snapshot), lambda block: block_bytes(snapshot.periods[block.period]), BYTES_A_GET
    )
    for some in blocks:
        rows = read_rows(hbase, some, snapshot.periods)
        for block in some:
            period = snapshot.periods[block.period]
            cells = rows.get(block, {})
            names = snapshot.readable.current(cells, period.since)
            content = Content.of(cells, names) if names else None
            try:
                check(block, period, content)
                if content is not None:
                    unpack({block: content.data})
            except BlockMissing:
                why = f"block {block.row} of the state is not in HBase"
                found.setdefault(period.key, BlockDamage(period.key, why, period))
            except BadBlock as error:
                found.setdefault(period.key, BlockDamage(period.key, str(error), period))
    return found


def damaged_pointers(hbase: HBase, pointers: Sequence[BackfillPointer]) -> list[BlockDamage]:
    """The periods with a block of a backfill or a rebuild that cannot be read; one for each."""
    found: dict[PeriodKey, BlockDamage] = {}
    for pointer in pointers:
        if pointer.period in found:
            continue
        block = BlockId.of(pointer.period, pointer.layout, pointer.bucket)
        try:
            unpack(dict.fromkeys([block], read_blocks(hbase, [pointer])[pointer]))
        except BackfillMissing:
            why = f"block {pointer.row} of the state is not in HBase"
            found[pointer.period] = BlockDamage(pointer.period, why, pointer)
        except BadBlock:
            why = f"block {pointer.row} of the state is damaged"
            found[pointer.period] = BlockDamage(pointer.period, why, pointer)
    return [found[key] for key in sorted(found)]
