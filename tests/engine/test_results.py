from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.results import RESULTS, results
from sluice.engine.rowkey import RowKey
from sluice.engine.schema import partials_schema
from sluice.metrics import Metric
from sluice.metrics.accumulators import LINES
from sluice.metrics.base import Columns, Results
from sluice.state.cells import stated_error
from sluice.tasks import ActiveTask
from tests.engine.samples import ALL_METRICS, BYTES, active, line, plan, records, spec, stored

SPECS = [
    spec(metrics=ALL_METRICS, measure=BYTES),
    spec(
        name="two",
        dimensions=[
            {"name": "client_ip", "extract": {"delimiter": " ", "index": 0}},
            {"name": "path", "extract": {"delimiter": " ", "index": 6}},
        ],
    ),
]
TASKS = {(t.task_id, t.version): t for t in active(*SPECS)}
START = 1431857100000


def found(*lines: bytes) -> list[dict[str, object]]:
    table = results(merge(count(records(lines), plan(*SPECS)).partials), TASKS)
    assert table.schema == RESULTS
    return table.to_pylist()


def texts(*lines: bytes) -> dict[str, str]:
    return {str(r["metric"]): str(r["text"]) for r in found(*lines) if r["task_id"] == 1}


def test_integers_have_no_point_and_floats_are_exact() -> None:
    assert texts(line(size="10"), line(size="5")) == {
        "count": "2",
        "sum": "15",
        "avg": "7.5",
        "min": "5",
        "max": "10",
        "missing": "0",
    }
    assert texts(line(size="0.1"), line(size="0.2"), line(size="-")) == {
        "count": "3",
        "sum": "0.30000000000000004",
        "avg": "0.15000000000000002",
        "min": "0.1",
        "max": "0.2",
        "missing": "1",
    }
    assert texts(line(size="4"), line(size="6"))["avg"] == "5.0"


def test_a_sum_beyond_what_a_float_holds_keeps_its_last_digit() -> None:
    large = 2**43 - 1
    lines = [line(size=str(large))] * 2000 + [line(size="1")]
    assert texts(*lines)["sum"] == str(2000 * large + 1)


def test_a_metric_of_nothing_has_no_result() -> None:
    assert texts(line(size="-")) == {"count": "1", "missing": "1"}


def test_the_row_holds_every_coordinate() -> None:
    rows = [r for r in found(line(client="a_b", path="/%_")) if r["task_id"] == 2]
    assert [r["row"] for r in rows] == [b"2v1_client%5Fip_a%5Fb_path_/%25%5F_count_1431857100000"]
    assert RowKey.decode(rows[0]["row"]) == RowKey(  # type: ignore[arg-type]
        2, 1, (("client_ip", "a_b"), ("path", "/%_")), "count", START
    )
    assert rows[0] | {"row": None} == {
        "task_id": 2,
        "version": 1,
        "period_start": START,
        "key": "a%5Fb_/%25%5F",
        "metric": "count",
        "value": 1.0,
        "is_int": True,
        "text": "1",
        "error": None,
        "row": None,
    }


def test_versions_that_are_not_asked_for_are_left_out() -> None:
    table = merge(count(records([line()]), plan(*SPECS)).partials)
    only = {key: task for key, task in TASKS.items() if key == (2, 1)}
    assert set(results(table, only).column("task_id").to_pylist()) == {2}


def test_nothing_and_tables_in_chunks() -> None:
    assert results(partials_schema().empty_table(), TASKS).equals(RESULTS.empty_table())
    table = merge(count(records([line(), line(status="404")]), plan(*SPECS)).partials)
    chunks = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert results(chunks, TASKS).equals(results(table, TASKS))


class Longest(Metric):
    """A sketched list metric, like top-k, over the accumulator of `count`."""

    name = "top2"
    accumulators = (LINES,)
    measure = "none"
    tolerance = 0.0
    sketched = True

    def results(self, columns: Columns) -> Results:
        lines = columns["lines"].to_numpy()
        values = np.where(lines > 1, lines.astype(np.float64), np.nan)
        texts = pa.array([json.dumps([["/a", n]]) if n > 1 else None for n in lines.tolist()], pa.string())
        return Results(values, texts=texts, errors=np.where(lines > 2, 0.5, 0.0))


def sketched(monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    monkeypatch.setattr("sluice.engine.results.metric", lambda name: Longest())
    task = spec(metrics=["count"])
    lines = [line(status=status) for status in ("200", "200", "200", "304", "304", "404")]
    merged = merge(count(records(lines), plan(task)).partials)
    return results(merged, {(1, 1): ActiveTask(1, 1, task.model_copy(update={"metrics": ("top2",)}))})


def test_a_list_has_its_text_and_a_sketched_metric_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row["key"]: row for row in sketched(monkeypatch).to_pylist()}
    assert {key: (row["text"], row["value"], row["error"]) for key, row in rows.items()} == {
        "200": ('[["/a", 3]]', 3.0, 0.5),
        "304": ('[["/a", 2]]', 2.0, 0.0),
    }


def test_an_error_is_a_cell_of_its_own_even_when_it_is_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells = stored(sketched(monkeypatch))
    assert cells == {
        b"1v1_status_200_top2_1431857100000": {b"r:o": b'[["/a", 3]]', b"r:oe": b"0.5"},
        b"1v1_status_304_top2_1431857100000": {b"r:o": b'[["/a", 2]]', b"r:oe": b"0.0"},
    }
    assert [stated_error(each, b"r:o") for each in cells.values()] == [0.5, 0.0]
    exact = results(merge(count(records([line()]), plan(*SPECS)).partials), TASKS)
    assert all(set(each) == {b"r:o"} for each in stored(exact).values())
    assert stated_error({b"r:o": b"7"}, b"r:o") == 0
