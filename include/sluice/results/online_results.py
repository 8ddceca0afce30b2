"""The online results of one task version, from HBase."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sluice.engine.rowkey import prefix
from sluice.results.compare import ONLINE_RESULTS
from sluice.state.cells import stated_error
from sluice.storage.hbase import ONLINE, ONLINE_ERROR, RESULTS, HBase
from sluice.tasks.spec import ActiveTask

# A filter names at most this many beginnings of time stamps.
PREFIXES = 20
SMALLEST_SCALE = 7  # 10^7 ms are 2.8 h
# Of a longer time (100 days) nearly all rows are wanted, so the region servers compare none with a pattern.
FILTERED_MS = 100 * 86_400_000


def online_results(hbase: HBase, task: ActiveTask, starts: range, others: Sequence[int] = ()) -> pa.Table:
    """`ONLINE_RESULTS` of periods that begin in `starts`, or at one of `others` (ms).

    The period is at the end of the row key (paper 002), so a scan meets all periods of a version. The region
    server leaves out most of those that are not wanted, and sends only few others near the range. The rows
    are not derived from the state's blocks, because a result without a state behind it is a difference to
    find.
    """
    rows, texts, errors = [], [], []
    columns = [ONLINE, ONLINE_ERROR]
    near = ends_near(starts, others) if starts.stop - starts.start < FILTERED_MS else None
    for row, cells in hbase.scan(RESULTS, prefix=prefix(task.label), columns=columns, row_filter=near):
        stamp = row.rpartition(b"_")[2]
        if not stamp.removeprefix(b"-").isdigit() or ONLINE not in cells:
            continue
        if int(stamp) in starts or int(stamp) in others:
            rows.append(row)
            texts.append(cells[ONLINE].decode("utf-8", "replace"))
            errors.append(stated_error(cells, ONLINE))
    return pa.table(
        [pa.array(rows, pa.binary()), pa.array(texts, pa.string()), pa.array(errors, pa.float64())],
        schema=ONLINE_RESULTS,
    )


def ends_near(starts: range, others: Sequence[int] = ()) -> str:
    """A filter for row keys with a time stamp in `starts` or `others`; few more pass it.

    If `starts` begins before 1970, all times before 1970 pass it: clocks that were never set show such times,
    east of Greenwich.
    """
    scale = SMALLEST_SCALE
    stamps = [str(start) for start in others]
    while (starts.stop - 1) // 10**scale - starts.start // 10**scale >= PREFIXES:
        scale += 1
    beginnings = range(max(starts.start, 0) // 10**scale, (starts.stop - 1) // 10**scale + 1)
    stamps += [f"{n}[0-9]{{{scale}}}" if n else f"[0-9]{{1,{scale}}}" for n in beginnings if starts]
    if starts.start < 0 and starts:
        stamps.append("-[0-9]+")
    return f"RowFilter(=, 'regexstring:_({'|'.join(stamps)})$')"
