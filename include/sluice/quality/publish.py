"""Make the offline results final in HBase, beside the online ones."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from sluice.results.agreement import has_error
from sluice.state.cells import value_cells
from sluice.storage.hbase import FINAL, RESULTS, Cells, HBase


def publish(hbase: HBase, frame: pd.DataFrame) -> int:
    """Write the final cells of compared results (rows of `compare.COLUMNS`); return how many.

    All results must agree. Repeating it has no effect.
    """
    return hbase.put(RESULTS, final_cells(frame))


def final_cells(frame: pd.DataFrame) -> Iterator[tuple[bytes, Cells]]:
    """The final cells of each result; a sketched metric's value comes with its error.

    If both layers have the same number, the online text is taken: it has all digits of an integer beyond
    2^53, while Hive's double keeps only the first sixteen.
    """
    sketched = frame["metric"].map({name: has_error(name) for name in frame["metric"].unique()})
    names = ("row", "online", "offline", "online_text", "offline_text", "offline_error")
    columns = (frame[name] for name in names)
    for row, online, offline, ours, theirs, error, wide in zip(*columns, sketched, strict=True):
        number = ours if online == offline else repr(float(offline))
        text = theirs if isinstance(theirs, str) else number
        yield row, value_cells(FINAL, text, (error if error > 0 else 0.0) if wide else None)
