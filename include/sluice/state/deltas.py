"""Large blocks take deltas: a batch that touches little of a block writes only what it adds to it.

A delta is a column beside the block's: the partial aggregates of one batch. The block's contents are its
newest committed base merged with all committed deltas after it (`CommittedColumns.current`). A *fold* reads
them, merges them with its batch, and writes them as the next base. A delta is written without a read, so its
writer does not know what is in the row. Why nothing is lost or counted twice all the same:

- *A Spark task that runs again*, even long after its commit, writes the same column with the same contents.
  Once a fold has merged it, it lies before the base and is not read. What takes a delta follows from what the
  driver sent with the attempt (`StatePass`), so a task decides the same again. If it did not, a base would
  hide the delta of the same commit, which it includes.
- *A kill* leaves columns that no commit made true, as with bases.
- *A batch that is counted again* has another token. The columns of the attempt before are never readable.
- *A second writer* has another token, too, and only one of the two commits.
- *Retention* drops a period at a commit, and a new line gives it a new `since`. Older deltas are not read,
  just as older bases. A batch that was built on the dropped period cannot commit.
- *A period that is laid out again* is read and written whole: none of its blocks takes a delta in that batch.
  Only periods take deltas whose layout the driver knows from its own commits, so the layout is the committed
  one, or the attempt cannot commit. A period with spread buckets takes no deltas from when one of them is
  outgrown until it is laid out again.
- *A driver that starts again* knows no period. The first batch that touches one reads it and writes bases.
- *Columns of no use* stay until the next fold of their row. A fold deletes what its base does not need: what
  the fold before replaced. So a reader of the commit before still finds the base and the deltas.
- *A base that HBase lost* is noticed: each bucket of a layout has a base, and deltas without one are refused.

The limit of series is checked by folds alone. A merge that raises is noticed by a fold or by a reader.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from sluice.engine.merge import merge_numbered
from sluice.engine.set_aside import Failures, each_or_all
from sluice.runtime.arrays import Ints
from sluice.state.blocks import TOUCHED, BlockId, assign, packed
from sluice.storage.tables.epochs import PeriodKey, StatePeriod

#: A block of about LARGE to LARGEST bytes takes deltas. Smaller ones cost less to rewrite than to read in
#: parts. Larger ones are a single series, or are about to be laid out again.
LARGE, LARGEST = 64 << 10, 512 << 10
#: A delta has at most this share of its block. Then all deltas of a fold have less than the block itself.
LITTLE = 8
#: A block that every batch touches is folded once in FOLD commits (docs/decisions/0017).
FOLD = 8


def block_bytes(period: StatePeriod) -> int:
    """About how many bytes a block of the period has."""
    return period.bytes // period.layout


def takes_deltas(period: StatePeriod) -> bool:
    """Whether the period's blocks are so large that they take deltas."""
    return LARGE <= block_bytes(period) <= LARGEST


def folds(seq: int, block: BlockId) -> bool:
    """Whether commit `seq` folds the block if it touches it.

    In each window of FOLD commits it is one of them, which differs from window to window and from block to
    block. So a block that is touched at regular intervals does not miss its folds for ever.
    """
    window, at = divmod(seq, FOLD)
    return at == zlib.crc32(f"{window}/{block.row}".encode()) % FOLD


def apart(
    partials: pa.Table, layouts: Mapping[PeriodKey, int], seq: int, large: Mapping[PeriodKey, int]
) -> tuple[pa.Table, list[BlockId], dict[BlockId, bytes]]:
    """The rows of a batch that are merged into their blocks, those blocks, and the deltas of the others.

    large: the periods whose blocks take deltas, and about how many bytes a block of each has.
    """
    numbers, ids = assign(partials, layouts)
    deltas: dict[BlockId, bytes] = {}
    if large:
        can = np.array([block.period in large and not folds(seq, block) for block in ids])
        rows = np.flatnonzero(can[numbers])
        found = packed(partials.take(pa.array(rows)), numbers[rows], ids, np.full(len(rows), seq))
        deltas = {block: data for block, data in found.items() if len(data) * LITTLE <= large[block.period]}
    if not deltas:
        return partials, sorted(ids), deltas
    whole = np.array([block not in deltas for block in ids])
    rest = partials.filter(pa.array(whole[numbers]))
    return rest, sorted(block for block in ids if block not in deltas), deltas


def combined(rows: pa.Table, touched: Ints) -> tuple[pa.Table, Ints, Failures]:
    """Rows of bases and deltas (PARTIALS) merged to one a series, and which commit touched each last.

    Versions that cannot be merged are left out, and named.
    """
    done, failures = each_or_all(_combined, rows.append_column(TOUCHED, pa.array(touched)))
    tables = pa.concat_tables([rows.slice(0, 0), *(table for table, _ in done)])
    return tables, np.concatenate([np.empty(0, np.int64), *(seqs for _, seqs in done)]), failures


def _combined(rows: pa.Table) -> tuple[pa.Table, Ints]:
    merged, numbers = merge_numbered(rows)
    return merged, newest(merged.num_rows, numbers, np.asarray(rows.column(TOUCHED), np.int64))


def newest(size: int, numbers: Ints, touched: Ints) -> Ints:
    """The newest commit of the rows that went into each of `size` merged rows."""
    found = np.zeros(size, np.int64)
    np.maximum.at(found, numbers, touched)
    return found
