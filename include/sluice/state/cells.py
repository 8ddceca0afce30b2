"""A result as cells of HBase's table `results`: its text, and its error if it is sketched."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sluice.storage.hbase import FINAL, FINAL_ERROR, ONLINE, ONLINE_ERROR, Cells

#: The column with the error of each value.
ERROR_OF = {ONLINE: ONLINE_ERROR, FINAL: FINAL_ERROR}


def online_cells(found: pa.Table) -> Iterator[tuple[bytes, Cells]]:
    """The rows of `results.RESULTS` as the speed layer writes them, in the order of their row keys.

    HBase finds the places of neighbours with half the work.
    """
    found = found.sort_by("row")
    columns = (found.column(name).to_pylist() for name in ("row", "text", "error"))
    for row, text, error in zip(*columns, strict=True):
        yield row, value_cells(ONLINE, text, error)


def value_cells(column: bytes, text: str, error: float | None) -> Cells:
    """One value and its error.

    An error of 0 is written too, because the error that it replaces may be greater.
    """
    value = {column: text.encode()}
    return value if error is None else {**value, ERROR_OF[column]: repr(error).encode()}


def stated_error(cells: Cells, column: bytes) -> float:
    """The error of the value in `column`; 0 where it is exact."""
    return float(cells.get(ERROR_OF[column], b"0"))
