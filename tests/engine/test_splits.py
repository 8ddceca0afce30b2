"""Any way of cutting lines into batches counts the same, for every metric that there is."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.schema import KEYS
from sluice.metrics import accumulator_columns, metric
from tests.engine.samples import BYTES, line, plan, records, spec
from tests.examples import examples

NUMERIC = ["count", "sum", "avg", "min", "max", "missing", "stddev", "unique", "p50", "p99", "top10"]
TEXTUAL = ["count", "missing", "unique", "top3"]
PATH = {"delimiter": " ", "index": 6, "type": "text"}
TASKS = (
    spec(name="numbers", measure=BYTES, metrics=NUMERIC),
    spec(name="texts", period="1h", timezone="Europe/Berlin", dimensions=[], measure=PATH, metrics=TEXTUAL),
)
#: States that are sketches: their bytes may differ although their answers agree within the stated error.
SKETCHES = {"kll", "heavy"}
#: The last digits of sums of fractions depend on the order.
ROUNDED = {"moment_mean", "moment_low", "moment_m2"}

made = st.lists(
    st.builds(
        line,
        at=st.integers(0, 7_200).map(
            lambda s: datetime(2026, 3, 29, 0, 30, tzinfo=UTC) + timedelta(seconds=s)
        ),
        path=st.sampled_from(["/", "/a", "/b", "/é", "-", "/_%"]),
        status=st.sampled_from(["200", "404"]),
        size=st.one_of(st.integers(0, 50).map(str), st.sampled_from(["-", "", "x", "0.5", "1e3"])),
    ),
    max_size=60,
)


def merged(parts: list[list[bytes]]) -> list[dict[str, Any]]:
    counted = [count(records(part), plan(*TASKS)) for part in parts]
    assert not any(each.failed for each in counted)
    table = merge(pa.concat_tables([each.partials for each in counted]))
    return sorted(table.to_pylist(), key=lambda row: tuple(str(row[name]) for name in KEYS))


@examples(25)
@given(made, st.lists(st.integers(0, 60), max_size=4), st.randoms(use_true_random=False))
def test_any_split_and_any_order_of_its_parts(lines: list[bytes], cuts: list[int], dice: Any) -> None:
    edges = [0, *sorted(min(cut, len(lines)) for cut in cuts), len(lines)]
    parts = [lines[a:b] for a, b in itertools.pairwise(edges)]
    dice.shuffle(parts)
    one, other = merged([lines]), merged(parts)
    assert [[row[name] for name in KEYS] for row in one] == [[row[name] for name in KEYS] for row in other]
    for whole, pieced in zip(one, other, strict=True):
        for name in accumulator_columns().keys() - SKETCHES - ROUNDED:
            assert whole[name] == pieced[name], name  # bit for bit, even HyperLogLog's registers
        for name in ROUNDED:
            assert (whole[name] is None) == (pieced[name] is None)
            if whole[name] is not None:
                np.testing.assert_allclose(whole[name], pieced[name], rtol=1e-9, atol=1e-9)


@examples(15)
@given(made, st.integers(0, 60))
def test_results_are_those_of_plain_python(lines: list[bytes], cut: int) -> None:
    table = pa.concat_tables(
        [count(records(part), plan(*TASKS)).partials for part in (lines[cut:], lines[:cut])]
    )
    rows = merge(table)
    texts: Counter[str] = Counter(raw.decode().split(" ")[6] for raw in lines)
    texts.pop("-", None)
    mine = rows.filter(pa.array([task == 2 for task in rows.column("task_id").to_pylist()], pa.bool_()))
    found: Counter[str] = Counter()
    columns = {name: mine.column(name).combine_chunks() for name in accumulator_columns()}
    top = metric("top10").results(columns)
    assert top.texts is not None
    for text in top.texts.to_pylist():
        if text is not None:
            found.update(dict(json.loads(text)))
    assert found == texts
    lines_counted = sum(metric("count").results(columns).values)
    assert lines_counted == len(lines)
