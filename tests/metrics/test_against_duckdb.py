"""Every metric of every series of an access log against DuckDB on the same lines."""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sluice.metrics import Batch, Numbers, Texts
from sluice.runtime.settings import ROOT
from tests.metrics.states import Columns, access_lines, added, columns_of, errors, merged, results, values

pytestmark = pytest.mark.slow

LINES = 60_000
METRICS = ["count", "missing", "sum", "avg", "min", "max", "stddev", "unique", "p50", "p95", "p99", "top3"]
OF_ONE_SERIES = """
SELECT key, count(*), count(*) - count(x), sum(x)::BIGINT, avg(x), min(x), max(x), stddev_pop(x),
       count(DISTINCT x), list(x ORDER BY x) FILTER (x IS NOT NULL)
FROM (SELECT {key} AS key, try_cast(bytes AS BIGINT) AS x FROM lines) GROUP BY key ORDER BY key
"""
COUNTS = """
SELECT {key} AS key, {measure} AS x, count(*) AS n FROM lines WHERE {measure} NOT IN ('-', '')
GROUP BY ALL ORDER BY key, n DESC, x
"""


#: A real access log, compressed, if there is one: beside the project or where this variable points.
REAL = Path(os.environ.get("SLUICE_TEST_LOG", ROOT.parent / "shared/data/apache_combined_10k.log.gz"))


@pytest.fixture(scope="module", params=["made up", "real"])
def lines(request: pytest.FixtureRequest) -> pa.Table:
    if request.param == "made up":
        return access_lines(LINES)
    if not REAL.is_file():
        pytest.skip("SLUICE_TEST_LOG names no access log (gzip)")
    return columns_of(gzip.decompress(REAL.read_bytes()).decode(errors="replace").splitlines())


def state(
    lines: pa.Table, key: str, measure: str, number: bool, metrics: list[str]
) -> tuple[pa.Array, Columns]:
    """A column's values, and the log's state by them, merged from batches of unequal sizes."""
    encoded = lines.column(key).combine_chunks().dictionary_encode()
    groups, size = np.asarray(encoded.indices, np.int64), len(encoded.dictionary)
    parts = []
    for begin in range(0, len(lines), 17_000):
        own = lines.column(measure).slice(begin, 17_000).combine_chunks().dictionary_encode()
        texts = Texts(np.asarray(own.indices, np.int64), own.dictionary)
        floats = (
            pc.cast(pc.if_else(pc.equal(own, "-"), "nan", own.cast(pa.string())), pa.float64())
            if number
            else None
        )
        numbers = None if floats is None else Numbers(np.asarray(floats, np.float64))
        batch = Batch(groups[begin : begin + 17_000], size, numbers, None, texts)
        parts.append(added(batch, *metrics))
    return encoded.dictionary, merged(size, *parts)


@pytest.mark.parametrize("key", ["status", "client", "path"])  # 8, 4,096 and tens of thousands of series
def test_a_log_by(key: str, lines: pa.Table) -> None:
    found, columns = state(lines, key, "bytes", True, METRICS)
    answers = {name: dict(zip(found.to_pylist(), values(columns, name), strict=True)) for name in METRICS}
    stated = {
        name: dict(zip(found.to_pylist(), errors(columns, name), strict=True))
        for name in METRICS
        if results(columns, name).errors is not None
    }
    counts: dict[str, list[list[Any]]] = {}
    for series, value, n in duckdb.sql(COUNTS.format(key=key, measure="bytes")).fetchall():
        counts.setdefault(series, []).append([value, n])
    wanted = duckdb.sql(OF_ONE_SERIES.format(key=key)).fetchall()
    assert len(wanted) == len(found)
    for series, count, missing, total, avg, low, high, stddev, unique, ordered in wanted:
        mine = {name: answers[name][series] for name in METRICS}
        exactly = ("count", "missing", "sum", "min", "max")
        assert [mine[name] for name in exactly] == [count, missing, total, low, high]
        if ordered is None:
            assert [mine[n] for n in METRICS[3:]] == [None] * 4 + [0] + [None] * 4
            continue
        assert math.isclose(mine["avg"], avg, rel_tol=1e-12)
        assert math.isclose(mine["stddev"], stddev, rel_tol=1e-9, abs_tol=1e-6)
        assert abs(mine["unique"] - unique) <= 4 * stated["unique"][series] * unique
        for name in ("p50", "p95", "p99"):
            rank = -(-len(ordered) * int(name[1:]) // 100)
            assert abs(mine[name] - ordered[rank - 1]) <= stated[name][series]
            if len(ordered) <= 1024:
                assert stated[name][series] == 0
        true = dict(map(tuple, counts[series]))
        for value, n in mine["top3"]:
            assert 0 <= true[value] - n <= stated["top3"][series]
        if len(true) <= 512:
            assert mine["top3"] == counts[series][:3]


def test_texts_of_a_log(lines: pa.Table) -> None:
    found, columns = state(lines, "status", "path", False, ["unique", "top10", "missing"])
    unique, top = values(columns, "unique"), values(columns, "top10")
    error = errors(columns, "top10")
    wanted = dict(duckdb.sql("SELECT status, count(DISTINCT path) FROM lines GROUP BY status").fetchall())
    counts: dict[str, dict[str, int]] = {}
    for series, value, n in duckdb.sql(COUNTS.format(key="status", measure="path")).fetchall():
        kept = Texts(np.zeros(1, np.int64), pa.array([value])).short.distinct[0].as_py()
        counts.setdefault(series, {})[kept] = n
    assert values(columns, "missing") == [0] * len(found)
    for at, series in enumerate(found.to_pylist()):
        relative = errors(columns, "unique")[at]
        assert relative == (0.0 if wanted[series] <= 1024 else 1.04 / 64)
        assert abs(unique[at] - wanted[series]) <= 4 * relative * wanted[series]
        assert error[at] <= sum(counts[series].values()) / 513
        for value, n in top[at]:
            assert 0 <= counts[series][value] - n <= error[at]
