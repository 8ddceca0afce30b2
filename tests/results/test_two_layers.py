"""The engine on the same lines in small and large batches, compared like a reconciliation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.results import results
from sluice.results.agreement import judge
from tests.engine.samples import BYTES, active, line, plan, records, spec

pytestmark = pytest.mark.slow

LINES = 24_000
NUMBERS = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "missing",
    "stddev",
    "unique",
    "p1",
    "p50",
    "p99",
    "p99.9",
    "top10",
]
TASKS = (
    spec(measure=BYTES, metrics=[*NUMBERS, "geometric_mean"]),
    spec(name="day", period="1d", dimensions=[], measure=BYTES, metrics=NUMBERS),
    spec(
        name="paths",
        period="1d",
        measure={"delimiter": " ", "index": 6, "type": "text"},
        metrics=["count", "missing", "unique", "top1", "top100"],
    ),
)


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    random = np.random.default_rng(1)
    start = datetime(2015, 5, 17, 10, tzinfo=UTC)
    sizes = [str(int(v)) for v in random.lognormal(8, 2, LINES)]
    pages = np.minimum(random.zipf(1.3, LINES), 4_000).tolist()
    return [
        line(
            at=start + timedelta(seconds=n // 100),
            path=f"/page/{pages[n]}",
            status=("200", "200", "304", "404")[n % 4],
            size="-" if n % 17 == 0 else sizes[n],
        )
        for n in range(LINES)
    ]


def counted(lines: Sequence[bytes], batch: int, one_by_one: bool) -> pa.Table:
    """Merged partials: each batch into the state before (online), or all at once (offline)."""
    parts = [count(records(lines[i : i + batch]), plan(*TASKS)).partials for i in range(0, len(lines), batch)]
    if not one_by_one:
        return merge(pa.concat_tables(parts))
    state = parts[0]
    for part in parts[1:]:
        state = merge(pa.concat_tables([state, part]))
    return state


def found(lines: Sequence[bytes], batch: int, one_by_one: bool) -> pd.DataFrame:
    table = results(counted(lines, batch, one_by_one), {(t.task_id, t.version): t for t in active(*TASKS)})
    return table.to_pandas().set_index("row").sort_index()


@pytest.mark.parametrize("batch", [150, 2_000])
def test_online_agrees_with_offline(batch: int, lines: list[bytes]) -> None:
    shuffled = [lines[i] for i in np.random.default_rng(batch).permutation(LINES)]
    online, offline = found(lines, batch, one_by_one=True), found(shuffled, 7_000, one_by_one=False)
    assert online.index.equals(offline.index)
    assert set(online["metric"]) == {name for task in TASKS for name in task.metrics}
    judged = judge(
        pd.DataFrame(
            {
                "metric": online["metric"],
                "online_text": online["text"],
                "online_error": online["error"],
                "offline": offline["value"],
                "offline_text": offline["text"].where(offline["metric"].str.startswith("top")),
                "offline_error": offline["error"],
            }
        )
    )
    assert judged[judged["differs"]].empty
    sketched = online["error"].notna()
    assert (online["error"][sketched] > 0).any()  # some are estimates,
    assert (online["error"][sketched] == 0).any()  # some are exact
    unique = online["metric"] == "unique"
    assert online["text"][unique].equals(offline["text"][unique])
