"""Rows as CSV, JSON, Arrow and Parquet, as programs and spreadsheets read them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.cli.output.format import Format, write
from sluice.cli.output.rows import for_people
from sluice.results import formats

ROWS = st.lists(
    st.tuples(
        st.integers(0, 2**40),
        st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
        st.none() | st.integers(-(2**62), 2**62),
        st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**50).map(float),
    ),
    max_size=8,
)


def batch(given: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*given, strict=True)) or [()] * 4
    kinds = (pa.timestamp("ms", tz="UTC"), pa.string(), pa.int64(), pa.float64())
    arrays = [pa.array(own, kind) for own, kind in zip(columns, kinds, strict=True)]
    arrays[1] = arrays[1].dictionary_encode()
    return pa.record_batch(arrays, names=["period", "path", "count", "avg"])


def printed(how: Callable[[pa.Schema, list[pa.RecordBatch]], Iterable[bytes]], own: pa.RecordBatch) -> bytes:
    return b"".join(how(own.schema, [own, own] if len(own) else []))


@given(given=ROWS)
def test_json_is_what_was_read(given: list[tuple[Any, ...]]) -> None:
    own = batch(given)
    found = json.loads(printed(formats.json_rows, own))
    assert [(r["path"], r["count"], r["avg"]) for r in found] == [row[1:] for row in given * 2]


@pytest.mark.slow
@given(given=ROWS)
def test_csv_has_the_cells_that_other_commands_print(given: list[tuple[Any, ...]]) -> None:
    """Except that doubles may have another number of digits for the same double."""
    own = batch(given)
    plain, cells = io.StringIO(), csv.reader(io.StringIO(printed(formats.csv, own).decode(), newline=""))
    shown = [
        [formats.OTHER if v is None and n == 1 else v for n, v in enumerate(r.values())]
        for r in own.to_pylist()
    ]
    write(own.schema.names, shown * 2, Format.CSV, plain)
    wanted = list(csv.reader(io.StringIO(plain.getvalue(), newline="")))
    found = list(cells)
    assert [row[1:3] for row in found] == [row[1:3] for row in wanted]
    assert [row[3] and float(row[3]) for row in found[1:]] == [row[3] and float(row[3]) for row in wanted[1:]]


def test_times_integral_doubles_and_lists_print_as_in_a_table() -> None:
    own = pa.record_batch(
        {
            "period": pa.array([1_431_820_800_000], pa.timestamp("ms", tz="Europe/Berlin")),
            "sum": pa.array([3.0]),
            "top2": pa.array(['[["a", 2]]']),
        }
    )
    assert printed(formats.csv, own).decode().splitlines()[1] == (
        '2015-05-17T02:00:00+02:00,3,"[[""a"", 2]]"'
    )
    assert json.loads(printed(formats.json_rows, own))[0]["top2"] == [["a", 2]]


def test_parquet_is_what_was_read() -> None:
    own = batch([(0, "/", 1, 0.5), (1, None, None, None)])
    out = io.BytesIO()
    formats.write_parquet(own.schema, [own, own], out)
    found = pq.read_table(out)
    assert found.to_pylist() == own.to_pylist() * 2


def test_people_see_errors_beside_values_and_a_name_for_the_rest() -> None:
    own = pa.record_batch(
        {"d": pa.array([None], pa.string()).dictionary_encode(), "p95": [10.5], "p95_error": [0.25]}
    )
    columns, found = for_people(own.schema, [own], ["p95"])
    assert (columns, list(found)) == (["d", "p95"], [["(other)", "10.5 ± 0.25"]])


@given(given=ROWS)
def test_an_arrow_stream_is_what_was_read_and_says_more_at_its_end(given: list[tuple[Any, ...]]) -> None:
    own, pieces = batch(given), list[bytes]()
    about = {"rows": 2 * len(own)}
    pieces += formats.arrow(own.schema, [own, own], lambda: about)
    reader = pa.ipc.open_stream(b"".join(pieces))
    found, said = [], {}
    for each, metadata in reader.iter_batches_with_custom_metadata():
        found += each.to_pylist()
        said |= dict(metadata or {})
    assert found == own.to_pylist() * 2
    assert json.loads(said[formats.ABOUT.encode()]) == about
    assert (
        pa.ipc.open_stream(b"".join(pieces)).read_all().to_pylist() == found
    )  # a reader that knows nothing of it


def test_batches_with_other_values_have_other_cells() -> None:
    made = [batch([(0, text, 1, 0.5)]) for text in ("a", 'b"', "=c")]
    assert b"".join(formats.csv(made[0].schema, made)).decode().splitlines()[1:] == [
        "1970-01-01T00:00:00Z,a,1,0.5",
        '1970-01-01T00:00:00Z,"b""",1,0.5',
        "1970-01-01T00:00:00Z,'=c,1,0.5",
    ]
    assert [row["path"] for row in json.loads(b"".join(formats.json_rows(made[0].schema, made)))] == [
        "a",
        'b"',
        "=c",
    ]


def test_json_has_no_number_where_there_is_none() -> None:
    own = pa.record_batch({"sum": [math.inf, -math.inf, math.nan, 2.0]})
    assert [row["sum"] for row in json.loads(printed(formats.json_rows, own))] == [None, None, None, 2] * 2
