"""Parts of SERIES as they are packed and kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluice.state.finals import compact, cut, pack, unpack
from sluice.state.series import series_schema
from tests.engine.samples import active, spec

(TASK,) = active(spec())
SCHEMA = series_schema(TASK)


def series(values: list[str]) -> pa.Table:
    size = len(values)
    given = {
        "period_start": pa.array(np.arange(size)),
        "d0": pa.array(values, pa.string()).dictionary_encode(),
        "lines": pa.array(np.arange(size)),
    }
    return pa.table([given.get(f.name, pa.nulls(size, f.type)) for f in SCHEMA], schema=SCHEMA)


@given(st.lists(st.text(max_size=3), min_size=1, max_size=30), st.data())
def test_a_compact_part_has_the_same_rows_and_its_own_values_in_order(
    values: list[str], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(values)))
    part = series(values).slice(first, data.draw(st.integers(0, len(values))))
    found = compact(part)
    assert found.to_pylist() == part.to_pylist()
    assert found.schema == part.schema
    for chunk in found.column("d0").chunks:
        own = part.column("d0").to_pylist()
        assert chunk.dictionary.to_pylist() == sorted(set(own), key=str.encode)


def test_parts_that_begin_anywhere_have_equal_dictionaries() -> None:
    whole = series([f"c{n % 7}" for n in range(700)])
    parts = [unpack(pack(part), SCHEMA) for part in cut(whole, 1_500)]
    assert len(parts) > 3
    first, *others = (part.column("d0").chunk(0).dictionary for part in parts)
    assert all(other.equals(first) for other in others)


def test_a_compact_part_keeps_nothing_of_the_larger_table() -> None:
    before = pa.total_allocated_bytes()
    whole = unpack(pack(series([f"client-{n}" for n in range(100_000)])), SCHEMA)
    part = compact(whole.slice(10, 10))
    del whole
    assert part.num_rows == 10
    assert pa.total_allocated_bytes() - before < 10_000
