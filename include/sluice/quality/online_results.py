"""The online results of one task version, out of HBase."""

from __future__ import annotations

import pyarrow as pa

from sluice.statistics.rowkey import prefix
from sluice.storage.hbase import ONLINE, RESULTS, HBase
from sluice.tasks.spec import ActiveTask

SCHEMA = pa.schema([("row", pa.binary()), ("text", pa.string())])
# A filter names at most so many beginnings of time stamps.
PREFIXES = 20
SMALLEST_SCALE = 7  # 10^7 ms are 2.8 h


def online_results(hbase: HBase, task: ActiveTask, starts: range) -> pa.Table:
    """`SCHEMA` of the results whose periods begin in `starts` (ms).

    The period is at the end of the row key (seed 002), so a scan meets all periods of the version; the region
    server leaves out most of the others, and only those near the range travel.
    """
    rows, texts = [], []
    for row, cells in hbase.scan(
        RESULTS, prefix=prefix(task.label), columns=[ONLINE], row_filter=ends_near(starts)
    ):
        stamp = row.rpartition(b"_")[2]
        if stamp.removeprefix(b"-").isdigit() and int(stamp) in starts and ONLINE in cells:
            rows.append(row)
            texts.append(cells[ONLINE].decode("utf-8", "replace"))
    return pa.table([pa.array(rows, pa.binary()), pa.array(texts, pa.string())], schema=SCHEMA)


def ends_near(starts: range) -> str:
    """A filter that passes every row key with a time stamp in the range, and few others.

    Of the time before 1970 it passes all: that is where clocks stand that were never set, east of Greenwich.
    """
    scale = SMALLEST_SCALE
    while (starts.stop - 1) // 10**scale - starts.start // 10**scale >= PREFIXES:
        scale += 1
    beginnings = range(max(starts.start, 0) // 10**scale, (starts.stop - 1) // 10**scale + 1)
    stamps = [f"{n}[0-9]{{{scale}}}" if n else f"[0-9]{{1,{scale}}}" for n in beginnings]
    if starts.start < 0:
        stamps.append("-[0-9]+")
    return f"RowFilter(=, 'regexstring:_({'|'.join(stamps)})$')"
