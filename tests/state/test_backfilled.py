"""A version's lines have two owners, merged when projected: whole periods, each line once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.batch.backfill.backfill import explained
from sluice.batch.backfill.day_blocks import BLOCKS, to_blocks, to_partials
from sluice.batch.backfill.day_count import day_prefix, point, prune
from sluice.batch.backfill.projection import block_ids
from sluice.batch.barred import PLACES
from sluice.batch.day_lines import DAY_LINES
from sluice.batch.reckoned import Parts, gathered
from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.outcomes import DIMENSION_BYTES
from sluice.engine.plan import EnginePlan, Range
from sluice.engine.schema import KEYS, of_version, partials_schema
from sluice.engine.set_aside import TasksFailed
from sluice.state import merging as merging_module
from sluice.state.backfilled import (
    Backfilled,
    BackfillMissing,
    add,
    keys_of,
    needed,
    onto,
    periods,
)
from sluice.state.blocks import BlockId, period_prefix
from sluice.state.merging import merge_into_blocks
from sluice.storage.hbase import STATE
from sluice.storage.tables.backfills import BackfillPointer
from sluice.storage.tables.commits import Version
from sluice.storage.tables.epochs import CommittedColumns, Epochs, PeriodKey, Snapshot, StatePeriod, column
from tests.engine.samples import ALL_METRICS, BYTES, LIMITS, active, line, plan, records, spec
from tests.examples import examples

DAY = date(2015, 5, 17)
CLIENTS = spec(
    period="31d",
    dimensions=[{"name": "client", "extract": {"delimiter": " ", "index": 0}}],
    metrics=ALL_METRICS,
    measure=BYTES,
)


def rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=lambda row: tuple(str(row[name]) for name in KEYS))


def lines(clients: Sequence[int], day: date = DAY, size: int = 7) -> list[bytes]:
    at = datetime(day.year, day.month, day.day, 10, tzinfo=UTC)
    return [
        line(client=f"c{client}", at=at + timedelta(seconds=n), size=str(size))
        for n, client in enumerate(clients)
    ]


def counted(text: Sequence[bytes], first: int = 0) -> pa.Table:
    return merge(count(records(text, first=first), plan(CLIENTS)).partials)


class Book:
    """The book of backfills, in memory."""

    def __init__(self) -> None:
        self.number = 0
        self.days: dict[date, list[BackfillPointer]] = {}
        self.asked: list[set[PeriodKey]] = []
        self.lagging: set[date] = set()  # days whose results are not projected

    def replace(self, day: date, pointers: list[BackfillPointer]) -> None:
        self.days[day] = pointers
        self.number += 1

    def revision(self, topic: str) -> int:
        return self.number

    def with_blocks(self, topic: str) -> set[Version]:
        return {(1, 1)} if self.days else set()

    def unsettled(self, topic: str) -> set[Version]:
        return {(1, 1)} if self.lagging else set()

    def pointers(self, wanted: set[PeriodKey]) -> list[BackfillPointer]:
        self.asked.append(wanted)
        return [p for day in self.days.values() for p in day if p.period in wanted]


class Cells:
    """HBase's `state`, in memory."""

    def __init__(self) -> None:
        self.rows: dict[bytes, dict[bytes, bytes]] = {}
        self.reads = 0

    def put(self, table: str, cells: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> None:
        assert table == STATE
        for row, columns in cells:
            self.rows.setdefault(row, {}).update(columns)

    def get(self, table: str, wanted: Sequence[bytes], columns: object) -> dict[bytes, dict[bytes, bytes]]:
        self.reads += len(wanted)
        return {row: self.rows[row] for row in wanted if row in self.rows}

    def scan(self, table: str, *, prefix: bytes, row_filter: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
        return [
            (row, dict.fromkeys(self.rows[row], b"")) for row in sorted(self.rows) if row.startswith(prefix)
        ]

    def delete(self, table: str, stale: Sequence[tuple[bytes, Sequence[bytes]]]) -> int:
        for row, names in stale:
            for name in names:
                del self.rows[row][name]
        return len(stale)


def fill(book: Book, cells: Cells, day: date, partials: pa.Table, number: int = 1) -> list[BackfillPointer]:
    """Backfill one day as the job does."""
    name = column(number, "token")
    pointers = []
    for row in pa.Table.from_batches(
        to_blocks(iter(partials.to_batches()), LIMITS.series), schema=BLOCKS
    ).to_pylist():
        block = BlockId.of((1, 1, row["period_start"]), row["layout"], row["bucket"])
        pointers.append(point(block, day, name, len(row["data"])))
        cells.put(STATE, [(pointers[-1].row.encode(), {name: row["data"]})])
    book.replace(day, pointers)
    return pointers


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging_module, "LIMIT", 2_000)


client_lists = st.lists(st.integers(0, 60), max_size=120)


@pytest.mark.slow
@examples(25)
@given(before=st.lists(client_lists, max_size=3), after=client_lists)
def test_a_result_has_every_line_once_in_both_layers(before: list[list[int]], after: list[int]) -> None:
    limit, merging_module.LIMIT = merging_module.LIMIT, 2_000
    try:
        book, cells = Book(), Cells()
        days = [lines(clients, DAY + timedelta(days=n), size=n) for n, clients in enumerate(before)]
        for n, text in enumerate(days):
            fill(book, cells, DAY + timedelta(days=n), counted(text))
        new = lines(after, DAY + timedelta(days=5))
        touched = counted(new)
        found, failures = Backfilled(book, cells, "logs").added(touched)  # type: ignore[arg-type]
        assert failures == {}
        whole = {row["key"]: row for row in rows(counted([each for day in days for each in day] + new))}
        assert rows(found) == [whole[row["key"]] for row in rows(touched)]
    finally:
        merging_module.LIMIT = limit


def test_a_day_filled_again_is_replaced_and_never_added(small_blocks: None) -> None:
    book, cells = Book(), Cells()
    speed = Backfilled(book, cells, "logs")  # type: ignore[arg-type]
    old, new = lines(range(50)), lines(range(50), DAY + timedelta(days=1))
    first = fill(book, cells, DAY, counted(old), number=1)
    assert len(first) > 1
    whole = rows(counted(old + new))
    assert rows(speed.added(counted(new))[0]) == whole
    second = fill(book, cells, DAY, counted(old), number=2)
    prune(cells, day_prefix((1, 1), DAY), {(p.row.encode(), p.column.encode()) for p in second})  # type: ignore[arg-type]
    assert {name for names in cells.rows.values() for name in names} == {second[0].column.encode()}
    assert rows(speed.added(counted(new))[0]) == whole


def test_blocks_replaced_between_pointer_and_read_are_looked_up_again() -> None:
    book, cells = Book(), Cells()
    speed = Backfilled(book, cells, "logs")  # type: ignore[arg-type]
    text = lines(range(5))
    fill(book, cells, DAY, counted(text), number=1)
    speed.added(counted(text))
    old = dict(book.days)
    cells.rows.clear()
    speed._blocks.clear()
    given_out = []

    def pointers(wanted: set[PeriodKey]) -> list[BackfillPointer]:
        """The first answer is out of date."""
        given_out.append(1)
        days = old if len(given_out) == 1 else book.days
        return [p for day in days.values() for p in day if p.period in wanted]

    fill(book, cells, DAY, counted(text), number=2)
    book.pointers = pointers  # type: ignore[method-assign]
    found, _ = speed.added(counted(text))
    assert len(given_out) == 2
    assert found.column("lines").to_pylist() == [2] * 5


def test_a_block_that_is_lost_is_named() -> None:
    book, cells = Book(), Cells()
    pointer, *_ = fill(book, cells, DAY, counted(lines([1])))
    cells.rows.clear()
    with pytest.raises(BackfillMissing, match=rf"block {pointer.row}.*on 2015-05-17 is not in HBase"):
        Backfilled(book, cells, "logs").added(counted(lines([1])))  # type: ignore[arg-type]


def test_without_a_backfill_a_projection_costs_one_question() -> None:
    book, cells = Book(), Cells()
    touched = counted(lines(range(10)))
    assert Backfilled(book, cells, "logs").added(touched) == (touched, {})  # type: ignore[arg-type]
    assert (book.asked, cells.reads) == ([], 0)


def test_blocks_are_read_once_and_only_if_a_series_can_be_in_them(small_blocks: None) -> None:
    book, cells = Book(), Cells()
    pointers = fill(book, cells, DAY, counted(lines(range(200))))
    assert len(pointers) > 4
    speed = Backfilled(book, cells, "logs")  # type: ignore[arg-type]
    touched = counted(lines([3], DAY + timedelta(days=1)))
    for _ in range(3):
        assert speed.added(touched)[0].column("lines").to_pylist() == [2]
    assert cells.reads == 1
    assert len(book.asked) == 1
    (one,) = needed(touched, pointers)
    assert (one.layout, one.period) == (pointers[0].layout, periods(touched)[0][0])


def test_keys_without_counts_change_nothing() -> None:
    table = counted(lines([1, 1, 2]))
    assert rows(onto(keys_of(table), table)) == rows(table)
    other = counted(lines([2, 3]))
    assert [row["key"] for row in rows(onto(keys_of(table), other))] == ["c1", "c2"]


def test_a_version_that_cannot_be_merged_is_named_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sluice.state import backfilled

    two = count(records(lines([1, 2])), plan(CLIENTS, CLIENTS.model_copy(update={"name": "other"}))).partials
    block = {BlockId(1, 1, two["period_start"][0].as_py(), 1, 0): merge_into_blocks(two, {}, lambda _: {})}
    pointer = point(next(iter(block)), DAY, b"s:x", 1)
    (data,) = [d for b, d in next(iter(block.values())).blocks.items() if b.task_id == 1]
    real = backfilled.merge_numbered

    def broken(table: pa.Table) -> object:
        if 1 in table.column("task_id").to_pylist():
            raise RuntimeError("no such thing")
        return real(table)

    monkeypatch.setattr(backfilled, "merge_numbered", broken)
    found, failures = add(merge(two), {pointer: data})
    assert failures == {(1, 1): "RuntimeError: no such thing"}
    assert set(found.column("task_id").to_pylist()) == {2}


def test_the_speed_layers_blocks_of_some_series() -> None:
    table = counted(lines(range(100)))
    start = periods(table)[0][0][2]

    def seen(*layouts: int) -> Snapshot:
        found = [StatePeriod(1, 1, start, layout, 1, 1, 9) for layout in layouts]
        return Snapshot(CommittedColumns(1, Epochs()), datetime.now(UTC), {each.key: each for each in found})

    ids = block_ids(table.slice(0, 3), seen(8))
    assert {each.layout for each in ids} == {8}
    assert 1 <= len(ids) <= 3
    assert block_ids(table, seen(1)) == [BlockId(1, 1, start, 1, 0)]
    assert block_ids(table, seen()) == []


def test_rows_of_filled_days_do_not_belong_to_the_speed_layer() -> None:
    block = BlockId(3, 2, 1431857100000, 4, 1)
    pointer = point(block, DAY, column(7, "ab"), 9)
    assert pointer.row == "b3v2/2015-05-17/1431857100000/4/1"
    assert pointer.column == "s:00000000000000000007.ab"
    assert pointer.row.startswith(day_prefix((3, 2), DAY))
    assert not pointer.row.encode().startswith(period_prefix(block.period))


LONG = "x" * (DIMENSION_BYTES + 1)
BY_PATH = spec(name="path", dimensions=[{"name": "path", "extract": {"delimiter": " ", "index": 6}}])
BY_STATUS = spec(name="status")


def day_lines(text: Sequence[bytes]) -> pa.RecordBatch:
    batch = records(text)
    return pa.RecordBatch.from_arrays(
        [*batch.columns, pa.array([0] * len(batch), pa.int64())], schema=DAY_LINES
    )


def test_a_line_that_was_a_dead_letter_is_not_backfilled() -> None:
    """An earlier release gave the second line up for all tasks, because of the value of one."""
    _, status = active(BY_PATH, BY_STATUS)
    batch = day_lines([line(), line(path=LONG), line(status="404")])
    places = pa.Table.from_pylist([{"partition": 0, "offset": 1, "line_in_record": 0}], PLACES)
    told: Parts = {}
    own = EnginePlan.of([status], LIMITS)
    partials = to_partials(iter([batch]), own, places, told.update)
    found = pa.Table.from_batches(partials, schema=partials_schema())
    assert {row["key"]: row["lines"] for row in found.to_pylist()} == {"200": 1, "404": 1}
    tallies, _ = gathered(told)
    assert tallies.filter(of_version(tallies, 2, 1))["counted"].to_pylist() == [2]


def test_a_long_value_keeps_the_line_only_from_the_task_whose_value_it_is() -> None:
    path, status = active(BY_PATH, BY_STATUS)
    batch, told = day_lines([line(), line(path=LONG)]), dict[int, tuple[bytes, bytes]]()
    own = EnginePlan.of([path, status], LIMITS)
    partials = to_partials(iter([batch]), own, PLACES.empty_table(), told.update)
    found = pa.Table.from_batches(partials, schema=partials_schema())
    assert {(row["task_id"], row["key"]): row["lines"] for row in found.to_pylist()} == {
        (1, "/"): 1,
        (2, "200"): 2,
    }


def test_a_backfill_counts_only_what_is_below_the_first_commit_of_its_version() -> None:
    _, status = active(BY_PATH, BY_STATUS)
    backwards = EnginePlan.of([status], LIMITS, None, {(2, 1): [Range.of({}, {0: 3})]})
    text = [line(), line(status="404"), line(), line(), line(status="404")]
    below = count(records(text), backwards).partials
    assert {row["key"]: row["lines"] for row in below.to_pylist()} == {"200": 2, "404": 1}
    other = records(text, partition=1)  # the speed layer owns a partition that the first commit did not know
    assert count(other, backwards).partials.num_rows == 0


def test_blocks_are_the_same_however_the_lines_were_dealt_out(small_blocks: None) -> None:
    text = lines([n % 70 for n in range(300)])
    whole = list(to_blocks(iter(counted(text).to_batches()), 100))
    parts = [counted(text[n : n + 100], first=n).to_batches()[0] for n in (200, 0, 100)]
    dealt = list(to_blocks(iter(parts), 100))
    shape = [[row["layout"], row["bucket"], row["lines"]] for each in whole for row in each.to_pylist()]
    assert shape == [[r["layout"], r["bucket"], r["lines"]] for each in dealt for r in each.to_pylist()]
    assert sum(row[2] for row in shape) == 300


def test_too_many_series_are_refused() -> None:
    with pytest.raises(TasksFailed, match=r"1v1: about 50 series in one period, 49 are allowed"):
        list(to_blocks(iter(counted(lines(range(50))).to_batches()), 49))


def test_an_error_of_a_python_worker_is_told_in_one_line() -> None:
    trace = (
        "Job aborted due to stage failure: org.apache.spark.PythonException: Traceback (most recent "
        'call last):\n  File "worker.py", line 1, in main\n    raise\n'
        "sluice.engine.set_aside.TasksFailed: 3v1: ValueError: no\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)\n"
        "java.lang.Exception: whatever Java says\n"
    )
    assert explained(RuntimeError(trace)) == "TasksFailed: 3v1: ValueError: no"
    assert explained(OSError("away")) == "OSError: away"


def test_versions_whose_days_are_not_projected_are_unsettled_until_they_are() -> None:
    book, cells = Book(), Cells()
    backfilled = Backfilled(book, cells, "logs")  # type: ignore[arg-type]
    series = counted(lines([1]))
    assert (backfilled.revision, backfilled.unsettled) == (0, set())
    fill(book, cells, DAY, series)
    book.lagging = {DAY}
    backfilled.added(series)
    assert (backfilled.revision, backfilled.unsettled) == (1, {(1, 1)})
    book.lagging, book.number = set(), 2
    backfilled.added(series)
    assert (backfilled.revision, backfilled.unsettled) == (2, set())
