"""The columns of the SQL tables have what the reader answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.results.reader import read
from sluice.sql import columns
from sluice.sql.columns import LONG
from tests.engine.samples import active, spec
from tests.examples import examples
from tests.results.questions import DAYS, LINES, SKETCHED, Given, ask, query, stored, task, texts
from tests.results.stored import Stored, series_of

pytestmark = pytest.mark.slow

NAMES = [name for name, _, _ in LONG]
#: Arrow's types for Spark's.
SPARKS = {
    "STRING": pa.string(),
    "INT": pa.int32(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "MAP<STRING, STRING>": pa.map_(pa.string(), pa.string()),
}


def long(layers: Stored, wanted: Sequence[str] = NAMES) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    (answer,) = read(layers, query())
    for batch in answer.batches():
        for own in columns.values(batch, layers.of, answer.metrics, wanted):
            assert own.schema.types == [SPARKS[kind] for name, kind, _ in LONG if name in wanted]
            rows += own.to_pylist()
    return rows


@given(given=LINES, final=DAYS)
@examples(40)
def test_results_has_a_row_for_each_value(given: list[Given], final: frozenset[int]) -> None:
    layers = stored(task(SKETCHED), given, final)
    wanted = {}
    for row in ask(layers):
        for name in SKETCHED:
            if row[name] is not None:
                number, text = (None, row[name]) if name == "top3" else (row[name], None)
                key = row["period"], row["client"], row["path"], name
                wanted[key] = number, text, row.get(f"{name}_error"), row["state"]
    found = {}
    for row in long(layers):
        series = dict(row["dimensions"])
        assert (row["task"], row["version"], list(series)) == ("sample", 1, ["client", "path"])
        key = row["period"], series["client"], series["path"], row["metric"]
        assert key not in found
        found[key] = row["value"], row["text"], row["error"], row["state"]
    assert found == wanted


@given(given=LINES, wanted=st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
@examples(40)
def test_only_the_columns_that_are_asked_for_are_made(given: list[Given], wanted: list[str]) -> None:
    layers, ordered = stored(task(SKETCHED), given), [name for name in NAMES if name in wanted]
    assert long(layers, ordered) == [{name: row[name] for name in ordered} for row in long(layers)]


def test_a_task_without_dimensions_has_empty_maps() -> None:
    of = active(spec(period="1h", dimensions=[]))[0]
    layers = Stored(of, series_of(of, texts([(1, 0, 0, 1), (2, 0, 0, 1)])))
    assert [row["dimensions"] for row in long(layers, ["dimensions"])] == [[], []]


@given(given=LINES, final=DAYS)
@examples(40)
def test_a_task_s_table_has_the_reader_s_rows(given: list[Given], final: frozenset[int]) -> None:
    layers = stored(task(SKETCHED), given, final)
    (answer,) = read(layers, query())
    names = answer.schema.names
    rows: list[dict[str, Any]] = []
    for batch in answer.batches():
        own = columns.typed(batch, names)
        assert not [kind for kind in own.schema.types if pa.types.is_dictionary(kind)]
        assert own.schema.field("period").type == SPARKS["TIMESTAMP"]
        rows += own.to_pylist()
    assert rows == ask(layers)


def test_a_row_is_there_whatever_columns_are_asked_for() -> None:
    """A series without any measure has no average, but a row."""
    of = task(SKETCHED)
    assert columns.shown(of, ["period", "avg"]) == ("count", "avg")
    assert columns.shown(of, ["unique_error"]) == ("count", "unique")
    without = active(spec(period="1h", measure={"delimiter": " ", "index": 9}, metrics=["sum", "avg"]))[0]
    assert columns.shown(without, ["avg"]) == ("sum", "avg")
