"""What is typed after `sluice results`, and how rows are printed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.cli import rows
from sluice.cli.asked import BadOption, Given, query
from sluice.cli.format import Format, write
from sluice.results.query import Order, Query, Top, Where

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


def printed(how: Callable[[pa.Schema, list[pa.RecordBatch], BinaryIO], None], own: pa.RecordBatch) -> bytes:
    out = io.BytesIO()
    how(own.schema, [own, own] if len(own) else [], out)
    return out.getvalue()


@given(given=ROWS)
def test_json_is_what_was_read(given: list[tuple[Any, ...]]) -> None:
    own = batch(given)
    found = json.loads(printed(rows.write_json, own))
    assert [(r["path"], r["count"], r["avg"]) for r in found] == [row[1:] for row in given * 2]


@given(given=ROWS)
def test_csv_has_the_cells_that_other_commands_print(given: list[tuple[Any, ...]]) -> None:
    """Except that doubles may have another number of digits for the same double."""
    own = batch(given)
    plain, cells = io.StringIO(), csv.reader(io.StringIO(printed(rows.write_csv, own).decode(), newline=""))
    shown = [
        [rows.OTHER if v is None and n == 1 else v for n, v in enumerate(r.values())] for r in own.to_pylist()
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
    assert printed(rows.write_csv, own).decode().splitlines()[1] == (
        '2015-05-17T02:00:00+02:00,3,"[[""a"", 2]]"'
    )
    assert json.loads(printed(rows.write_json, own))[0]["top2"] == [["a", 2]]


def test_parquet_is_what_was_read() -> None:
    own = batch([(0, "/", 1, 0.5), (1, None, None, None)])
    found = pq.read_table(io.BytesIO(printed(rows.write_parquet, own)))
    assert found.to_pylist() == own.to_pylist() * 2


def test_people_see_errors_beside_values_and_a_name_for_the_rest() -> None:
    own = pa.record_batch(
        {"d": pa.array([None], pa.string()).dictionary_encode(), "p95": [10.5], "p95_error": [0.25]}
    )
    columns, found = rows.for_people(own.schema, [own], ["p95"])
    assert (columns, list(found)) == (["d", "p95"], [["(other)", "10.5 ± 0.25"]])


def asked_for(**options: Any) -> Query:
    return query("hits", given=Given(**options))


def test_options_make_a_query() -> None:
    asked = asked_for(
        where=["status=500", "path^=/img/=", "status=404", r"path~=\.png$"],
        top="10:sum",
        rollup=["client,1d", "path"],
        sort=["sum:desc", "period"],
        limit=3,
    )
    assert asked.where == (
        Where(dimension="status", values=("500", "404")),
        Where(dimension="path", prefix="/img/="),
        Where(dimension="path", pattern=r"\.png$"),
    )
    assert (asked.top, asked.dimensions, asked.period) == (Top(n=10, metric="sum"), ("client", "path"), "1d")
    assert asked.order == (Order(column="sum", descending=True), Order(column="period"))
    plain, total = asked_for(top="3"), asked_for(rollup=["total,all"])
    assert (plain.top, plain.dimensions, plain.period) == (Top(n=3, metric="count"), None, None)
    assert (total.dimensions, total.period) == ((), "all")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": ["status"]}, "--where 'status': write DIMENSION=VALUE"),
        ({"top": "many"}, "--top 'many': write how many"),
        ({"rollup": ["1h,1d"]}, "--rollup 1h,1d: name one period"),
        ({"rollup": ["total,path"]}, "--rollup total,path: total keeps no dimension"),
        ({"sort": ["count:down"]}, "--sort 'count:down': write a column"),
    ],
)
def test_an_option_that_cannot_be_read_says_how_to_write_it(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        asked_for(**options)
