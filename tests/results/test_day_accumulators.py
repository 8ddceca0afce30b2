"""A day's accumulators come out of Parquet files as they were merged."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.batch.day_results import result_rows
from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.schema import of_version
from sluice.results import day_accumulators
from sluice.results.day_accumulators import day_partials
from sluice.state.finals import cut, pack, unpack
from sluice.state.series import of_partials, series_schema
from tests.engine.samples import ALL_METRICS, BYTES, active, line, plan, records, spec
from tests.examples import examples

SPECS = [
    spec(
        dimensions=[{"name": "client", "extract": {"delimiter": " ", "index": 0}}],
        measure=BYTES,
        metrics=[*ALL_METRICS, "stddev", "unique", "p50", "top3"],
    ),
    spec(name="total", dimensions=[], metrics=["count"]),
]
TASKS = {(task.task_id, task.version): task for task in active(*SPECS)}
SIZES = ("-", "0", "512", "0.1", "1e30", "9007199254740993")
LINES = st.lists(st.tuples(st.sampled_from(("a", "b_c", "d%")), st.sampled_from(SIZES)), max_size=12)


def in_order(table: pa.Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.to_pylist()
    return sorted(rows, key=lambda row: (row["period_start"], row["key"]))


@pytest.mark.slow
@given(files=st.lists(LINES, max_size=3))
@examples(40)
@pytest.mark.parametrize("flush", [0, 1 << 20])
def test_partials_are_read_as_they_were_merged(flush: int, files: list[list[tuple[str, str]]]) -> None:
    lines = [line(client=client, size=size) for own in files for client, size in own]
    merged = merge(count(records(lines), plan(*SPECS)).partials)
    stored = {}
    for number, (version, task) in enumerate(TASKS.items()):
        sink = io.BytesIO()
        pq.write_table(result_rows(merged.filter(of_version(merged, *version)), task), sink)
        stored[str(number)] = sink.getvalue()
    starts = range(0, 1 << 50)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(day_accumulators, "FLUSH_BYTES", flush)
        found = list(day_partials(stored.__getitem__, stored, dict.fromkeys(TASKS, starts)))
    for version in TASKS:
        own = [rows for which, rows in found if which == version]
        wanted = merged.filter(of_version(merged, *version))
        assert in_order(pa.concat_tables([wanted.slice(0, 0), *own])) == in_order(wanted)
    assert list(day_partials(stored.__getitem__, stored, dict.fromkeys(TASKS, range(0)))) == []


@given(lines=LINES, most=st.sampled_from([1, 200, 1 << 20]))
@examples(40)
def test_blocks_hold_what_was_merged(lines: list[tuple[str, str]], most: int) -> None:
    task = TASKS[1, 1]
    merged = merge(count(records([line(client=c, size=s) for c, s in lines]), plan(SPECS[0])).partials)
    rows = of_partials(merged, task)
    parts = [unpack(pack(part), series_schema(task)) for part in cut(rows, most)]
    assert [row for part in parts for row in part.to_pylist()] == rows.to_pylist()
