"""A result as cells of HBase's table `results`: its text, and its error if it is sketched."""

from __future__ import annotations

import pyarrow as pa

from sluice.storage.hbase import FINAL, FINAL_ERROR, ONLINE, ONLINE_ERROR, Cells
from sluice.storage.mutations import ROW

#: The column with the error of each value.
ERROR_OF = {ONLINE: ONLINE_ERROR, FINAL: FINAL_ERROR}


def online_cells(found: pa.Table) -> pa.Table:
    """The rows of `results.RESULTS` as the speed layer writes them, for `HBase.put_table`."""
    found = found.sort_by("row")
    cells = {ROW: found.column("row"), ONLINE.decode(): found.column("text")}
    errors = found.column("error")
    if errors.null_count < len(errors):
        texts = [None if each is None else repr(each) for each in errors.to_pylist()]
        cells[ERROR_OF[ONLINE].decode()] = pa.chunked_array([pa.array(texts, pa.string())])
    return pa.table(cells)


def value_cells(column: bytes, text: str, error: float | None) -> Cells:
    """One value and its error.

    An error of 0 is written too, because the error that it replaces may be greater.
    """
    value = {column: text.encode()}
    return value if error is None else {**value, ERROR_OF[column]: repr(error).encode()}


def stated_error(cells: Cells, column: bytes) -> float:
    """The error of the value in `column`; 0 where it is exact."""
    return float(cells.get(ERROR_OF[column], b"0"))
