"""The periods of an answer, the neighbours of one origin together: as short as an answer's days are few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def spans(periods: pa.Table) -> list[dict[str, Any]]:
    """`reader.PERIODS` in order of time, a row for each run of periods of one state, commit and nightly run.

    `first` and `last` are the starts of the run's periods in ms, `periods` is how many there are.
    """
    if not periods.num_rows:
        return []
    changed = np.zeros(periods.num_rows, bool)
    changed[0] = True
    for name in ("state", "commit", "run_id"):
        column = periods.column(name).combine_chunks()
        codes = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy()
        changed[1:] |= codes[1:] != codes[:-1]
    begins = np.flatnonzero(changed)
    ends = np.append(begins[1:], periods.num_rows) - 1
    starts = periods.column("period_start").to_numpy()
    rows = periods.take(pa.array(begins)).to_pylist()
    return [
        {
            "first": int(starts[begin]),
            "last": int(starts[end]),
            "periods": int(end - begin + 1),
            "state": row["state"],
            "commit": row["commit"],
            "run_id": row["run_id"],
        }
        for row, begin, end in zip(rows, begins, ends, strict=True)
    ]
