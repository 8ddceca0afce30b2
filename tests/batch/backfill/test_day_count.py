"""A day's blocks are written under names of their owner, and only those of wanted periods; no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sluice.batch.backfill.day_blocks import BLOCKS, to_blocks
from sluice.batch.backfill.day_count import DayCount, day_prefix
from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import Failures, TasksFailed
from sluice.runtime.settings import Settings
from sluice.storage.tables.backfills import REBUILT
from tests.engine.samples import LIMITS, active, line, records, spec
from tests.state.test_backfilled import Cells

DAY = date(2015, 5, 17)


def blocks() -> list[Any]:
    """What Spark hands over of two tasks."""
    plan = EnginePlan.of(active(spec(), spec(name="other", period="1h")), LIMITS)
    partials = merge(count(records([line(), line(client="c2")]), plan).partials)
    found = pa.Table.from_batches(to_blocks(iter(partials.to_batches()), LIMITS.series), schema=BLOCKS)
    return [SimpleNamespace(**row) for row in found.to_pylist()]


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> Cells:
    def handed(self: DayCount, day: date, plan: EnginePlan, told: Any, aside: Any) -> Iterator[Any]:
        return iter(blocks())

    monkeypatch.setattr(DayCount, "_blocks", handed)
    return Cells()


def write(cells: Cells, **how: Any) -> Any:
    none: Any = None
    count = DayCount(none, Settings(instance="test"), cells, "logs", {0: 9})  # type: ignore[arg-type]
    return count.write(DAY, none, 7, none, **how)


def test_blocks_of_several_tasks_are_told_apart() -> None:
    assert sorted((each.task_id, each.version, each.lines) for each in blocks()) == [(1, 1, 2), (2, 1, 2)]


def test_a_backfill_and_a_rebuild_have_rows_of_their_own(cells: Cells) -> None:
    filled, lines = write(cells)
    rebuilt, _ = write(cells, owner=REBUILT)
    assert lines == 4
    assert [each.row[:16] for each in filled] == ["b1v1/2015-05-17/", "b2v1/2015-05-17/"]
    assert [each.row[:16] for each in rebuilt] == [day_prefix((n, 1), DAY, REBUILT) for n in (1, 2)]
    assert {each.row.encode() for each in (*filled, *rebuilt)} == cells.rows.keys()
    assert {each.owner for each in rebuilt} == {"r1v1/2015-05-17", "r2v1/2015-05-17"}
    assert {each.column[:22] for each in rebuilt} == {"s:00000000000000000007"}


def test_periods_that_are_not_wanted_are_not_written(cells: Cells) -> None:
    (wanted, _), _ = write(cells)
    cells.rows.clear()
    pointers, lines = write(cells, only={wanted.period})
    assert [each.period for each in pointers] == [wanted.period]
    assert (lines, len(cells.rows)) == (2, 1)


def test_a_version_that_fails_is_named_and_the_others_have_their_blocks() -> None:
    plan = EnginePlan.of(active(spec(), spec(name="other", dimensions=[])), LIMITS)
    partials = merge(count(records([line(), line(status="404")]), plan).partials)
    failed: Failures = {}
    found = list(to_blocks(iter(partials.to_batches()), 1, failed.update))
    assert {row["task_id"] for row in pa.Table.from_batches(found).to_pylist()} == {2}
    assert list(failed) == [(1, 1)]
    with pytest.raises(TasksFailed, match="about 2 series in one period"):
        list(to_blocks(iter(partials.to_batches()), 1))


def test_only_lines_and_blocks_of_versions_that_did_not_fail_are_returned(cells: Cells) -> None:
    pointers, lines = write(cells, failures=SimpleNamespace(value={(1, 1): "it raised"}, add=None))
    assert ({each.task_id for each in pointers}, lines) == ({2}, 2)
