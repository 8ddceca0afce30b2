from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.dealt_out import dealt_out


@given(st.lists(st.integers(0, 5)), st.sampled_from([np.int64, np.uint16]))
def test_each_target_gets_its_rows_in_their_order(targets: list[int], kind: type[np.integer]) -> None:
    rows = pa.table({"row": pa.array(range(len(targets)), pa.int64())})
    found = [
        (target, own.column("row").to_pylist()) for target, own in dealt_out(rows, np.array(targets, kind))
    ]
    assert found == [
        (target, [row for row, own in enumerate(targets) if own == target]) for target in sorted(set(targets))
    ]


def test_rows_of_one_target_are_not_copied() -> None:
    rows = pa.table({"row": [1, 2, 3]})
    ((_, own),) = dealt_out(rows, np.zeros(3, np.int64))
    addresses = {table.column("row").chunk(0).buffers()[1].address for table in (rows, own)}
    assert len(addresses) == 1
