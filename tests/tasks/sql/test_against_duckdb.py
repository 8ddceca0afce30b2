"""The same SELECT, compiled and counted by the engine, and executed by DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.results import results
from sluice.engine.rowkey import series_values
from sluice.tasks.sql import compile_sql
from tests.engine.samples import active, line, plan, records

pytestmark = pytest.mark.slow

START = datetime(2015, 5, 17, tzinfo=UTC)
#: The dimensions' values and the day; the metric; its value.
Found = tuple[tuple[str, ...], str, float]

DAY = "GROUP BY {}period('1d')"


def log() -> list[bytes]:
    rng = random.Random(2)  # noqa: S311
    return [
        line(
            client=f"10.0.0.{rng.randrange(5)}",
            at=START + timedelta(seconds=60 * n),
            path=rng.choice(["/", "/a_b", "/a%20b", "/c?d=e", "/A.css", "/it's"]),
            status=rng.choice(["200", "200", "304", "404", "500"]),
            size=str(rng.randrange(10**4)),
        )
        for n in range(2500)
    ]


LOG = log()
#: DuckDB knows only lines; the format's fields are columns of a view such as a person would write.
VIEW = r"""
    CREATE VIEW logs AS SELECT line,
        split_part(line, ' ', 1) AS client,
        regexp_extract(line, '"(\S+) (\S+) ', 1) AS method,
        regexp_extract(line, '"(\S+) (\S+) ', 2) AS path,
        split_part(line, ' ', 9) AS status,
        CAST(split_part(line, ' ', 10) AS BIGINT) AS bytes
    FROM lines
"""
PERIOD = "date_trunc('day', strptime(regexp_extract(line, '\\[([^ ]+)', 1), '%d/%b/%Y:%H:%M:%S'))"

SELECTS = [
    "SELECT count(*) FROM logs",
    "SELECT status, count(*), sum(bytes), avg(bytes), min(bytes), max(bytes) FROM logs",
    "SELECT status, count(*), stddev_pop(bytes), count(DISTINCT bytes) FROM logs",
    "SELECT status, client, count(*) FROM logs WHERE method = 'GET'",
    "SELECT status, count(*) FROM logs WHERE status <> '500' AND path LIKE '/a%'",
    "SELECT status, count(*) FROM logs WHERE path LIKE '/a_b' AND NOT status = 304",
    "SELECT status, count(*) FROM logs WHERE path LIKE '/_%' AND path NOT LIKE '%?%'",
    "SELECT status, count(*) FROM logs WHERE path ILIKE '%.CSS' AND path NOT ILIKE '/b%'",
    "SELECT status, count(*) FROM logs WHERE path = '/it''s'",
    "SELECT status, count(*) FROM logs WHERE status IN ('200', '404') AND client NOT IN ('10.0.0.1')",
    "SELECT status, count(*) FROM logs WHERE status = '200' OR '404' = status OR status IN ('500')",
    "SELECT status, count(*) FROM logs WHERE NOT (status = '200' OR client = '10.0.0.2')",
    "SELECT status, count(*) FROM logs WHERE NOT NOT (status NOT IN ('200'))",
    "SELECT status, count(*) FROM logs WHERE NOT (status <> '200' AND status <> '404')",
    "SELECT status, count(*) FROM logs WHERE line LIKE '%curl%' AND path IS NOT NULL",
    "SELECT split_part(line, ' ', 9) AS code, count(*), sum(bytes) FROM logs",
    "SELECT regexp_extract(path, '^/([a-z]*)', 1) AS section, count(*) FROM logs",
    "SELECT regexp_extract(split_part(line, ' ', 7), '[^?]*', 0) AS page, count(*) FROM logs",
    "SELECT status, count(*), count(DISTINCT path) FROM logs",
]


def by_engine(select: str) -> Counter[Found]:
    spec = compile_sql("t", select)
    tasks = {(t.task_id, t.version): t for t in active(spec)}
    found: Counter[Found] = Counter()
    for row in results(merge(count(records(LOG), plan(spec)).partials), tasks).to_pylist():
        values = series_values(row["key"], len(spec.dimensions))
        day = datetime.fromtimestamp(row["period_start"] / 1000, UTC)
        found[(*values, day.date().isoformat()), row["metric"], round(row["value"], 6)] += 1
    return found


def by_duckdb(select: str) -> Counter[Found]:
    spec = compile_sql("t", select)
    width = len(spec.dimensions)
    database = duckdb.connect()
    lines = pa.table({"line": pa.array([each.decode() for each in LOG])})
    database.register("lines", lines)
    database.execute(VIEW)
    text = select.replace("period('1d')", PERIOD).replace("SELECT ", f"SELECT {PERIOD} AS day, ", 1)
    found: Counter[Found] = Counter()
    for day, *row in database.execute(text.replace("GROUP BY ", "GROUP BY day, ")).fetchall():
        for name, value in zip(spec.metrics, row[width:], strict=True):
            found[(*row[:width], day.date().isoformat()), name, round(float(value), 6)] += 1
    return found


@pytest.mark.parametrize("select", SELECTS)
def test_both_count_the_same(select: str) -> None:
    columns = select.partition(" FROM ")[0].removeprefix("SELECT ")
    names = columns.partition("count(*)")[0].rstrip(", ")
    grouped = f"{names.split(' AS ')[-1]}, " if names else ""
    whole = f"{select} {DAY.format(grouped)}"
    expected = by_duckdb(whole)
    assert expected
    assert by_engine(whole) == expected
