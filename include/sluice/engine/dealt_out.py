"""Splits rows by their targets: both layers do this before a shuffle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def dealt_out(rows: pa.Table, targets: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[int, pa.Table]]:
    """Each target's rows in their order, the least target first; those without rows are left out.

    `targets`: the target of each row. The parts are slices of one sorted copy; if all rows have one target,
    nothing is copied.
    """
    order = np.argsort(targets, kind="stable")
    found, begins = np.unique(targets[order], return_index=True)
    ordered = rows if len(found) <= 1 else rows.take(pa.array(order))
    ends = np.append(begins, len(order))[1:]
    for target, begin, end in zip(found.tolist(), begins.tolist(), ends.tolist(), strict=True):
        yield target, ordered.slice(begin, end - begin)
