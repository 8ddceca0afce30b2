"""Partial aggregates on their way through the shuffle."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.batch import shuffled
from sluice.batch.shuffled import SHUFFLED, bucket_of, dealt, partials
from sluice.engine.count import count
from sluice.engine.schema import KEYS, partials_schema
from tests.engine.samples import line, plan, records, spec
from tests.examples import examples

BY_PATH = spec(dimensions=[{"name": "path", "extract": {"delimiter": " ", "index": 6}}])
BY_STATUS = spec(name="status", dimensions=[{"name": "s", "extract": {"delimiter": " ", "index": 8}}])


def counted(paths: list[str]) -> pa.RecordBatch:
    """PARTIALS of two tasks."""
    lines = [line(path=path, status=str(200 + len(path))) for path in paths]
    table = count(records(lines), plan(BY_PATH, BY_STATUS)).partials.combine_chunks()
    return table.to_batches()[0]


def rows(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    whole = pa.Table.from_batches(batches, partials_schema()).to_pylist()
    return sorted(whole, key=lambda row: tuple(str(row[name]) for name in KEYS))


@pytest.mark.slow
@examples(40)
@given(st.lists(st.text("abé", max_size=3), min_size=1, max_size=20), st.integers(1, 9), st.integers(1, 400))
def test_all_partials_come_out_again_each_in_its_own_bucket(
    paths: list[str], buckets: int, size: int
) -> None:
    batch = counted(["/" + path for path in paths])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffled, "PAYLOAD_BYTES", size)
        sent = list(dealt(iter([batch, batch]), buckets))
    assert all(part.schema == SHUFFLED for part in sent)
    assert rows(list(partials(iter(sent)))) == rows([batch, batch])
    met: dict[tuple[object, ...], int] = {}
    for part in sent:
        bucket = part.column("bucket")[0].as_py()
        assert 0 <= bucket < buckets
        for row in rows(list(partials(iter([part])))):
            assert met.setdefault(tuple(row[name] for name in KEYS), bucket) == bucket


def test_series_spread_over_all_buckets() -> None:
    batch = counted([f"/{n}" for n in range(4_000)])
    share = np.bincount(bucket_of(batch, 8)) / len(batch)
    assert share.min() > 0.1
    assert share.max() < 0.15


def test_nothing_is_sent_of_nothing() -> None:
    assert list(dealt(iter(partials_schema().empty_table().to_batches()), 4)) == []
    assert list(dealt(iter([]), 4)) == []


def test_columns_that_no_task_asks_for_are_not_sent() -> None:
    batch = counted(["/a", "/b"])
    (sent,) = dealt(iter([batch]), 1)
    table = pa.ipc.open_stream(sent.column("payload")[0].as_buffer()).read_all()
    assert all(table.column(name).null_count < len(table) for name in table.schema.names)
    assert table.num_columns < batch.num_columns
