"""The offline results made final in HBase, beside the online ones."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from sluice.storage.hbase import FINAL, RESULTS, Cells, HBase


def publish(hbase: HBase, frame: pd.DataFrame) -> int:
    """Write the final cell of each compared result that agrees; how many. Repeating it changes nothing.

    Where both layers have the very same number the online text is taken: of an integer beyond 2^53 it has all
    digits, of which Hive's double keeps the first sixteen.
    """

    def rows() -> Iterator[tuple[bytes, Cells]]:
        columns = (frame[name] for name in ("row", "online", "offline", "online_text"))
        for row, online, offline, text in zip(*columns, strict=True):
            yield row, {FINAL: (text if online == offline else repr(float(offline))).encode()}

    return hbase.put(RESULTS, rows())
