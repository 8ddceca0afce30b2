"""What a writer attempts and commits: each attempt has a token, and outgrown periods go to one task."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import TasksFailed
from sluice.engine.wire import DAMAGED, FOUND, OUTGROWN, STATED
from sluice.runtime.positions import UNREAD
from sluice.runtime.sections import Limits
from sluice.speed.laps import Laps
from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.state_pass import StatePass
from sluice.speed.writer import CountedBatch, StateChanged, Writer, nothing
from sluice.state.dealing import Dealing
from sluice.storage.tables.commits import Commit, PeriodsGone
from sluice.storage.tables.epochs import CommittedColumns, Epochs, PeriodKey, StatePeriod
from sluice.storage.tables.recounts import BlockDamage

PLAN = EnginePlan.of([], Limits())
NOTHING = Gathered.of(FOUND.empty_table())


class Log:
    topic = "logs"

    def __init__(self) -> None:
        self.commits: list[Commit] = []

    def append(self, commit: Commit) -> None:
        self.commits.append(commit)


class Attempts:
    """In the place of Spark: notes each attempt, and finds what it is told to."""

    def __init__(self, *found: Gathered) -> None:
        self.found = list(found)
        self.seen: list[tuple[int, str]] = []
        self.spread: list[dict[Any, int]] = []
        self.readable: list[CommittedColumns] = []
        self.tasks: list[int] = []
        self.homes: list[dict[Any, int]] = []

    def __call__(self, work: PartitionPass, dealing: Dealing, merging: StatePass, dealt: bool) -> Gathered:
        self.seen.append((merging.seq, merging.token))
        self.spread.append(dict(dealing.spread))
        self.tasks.append(dealing.tasks)
        self.homes.append(dict(dealing.homes))
        self.readable.append(merging.readable)
        assert set(merging.spread) == set(dealing.spread)
        return self.found.pop(0) if self.found else NOTHING


def writer() -> tuple[Writer, Log]:
    log: Any = Log()
    none: Any = SimpleNamespace()
    offsets: Any = SimpleNamespace(
        check_topic=lambda: None, topic_id="", read_at={}, logs=dict.fromkeys(range(3), UNREAD)
    )
    return Writer(log, none, none, offsets, tasks=3), log


def stated(
    layout: int, *, size: int = 100, blocks: int = 1, widen: bool = False, late: bool = False
) -> pa.Table:
    row = {"task_id": 1, "version": 1, "period_start": 0, "layout": layout, "since": 1, "blocks": blocks,
           "bytes": size, "widen": widen, "late": late}  # fmt: skip
    return pa.Table.from_pylist([row], schema=STATED)


def count(one: Writer, run: Attempts) -> CountedBatch:
    return one.count(PLAN, None, run, Laps())


def test_a_batch_that_is_counted_again_has_another_token() -> None:
    """The columns of the first attempt would be committed with the second if they had the same token."""
    one, log = writer()
    failing = replace(NOTHING, failed={(1, 1): "boom"})
    attempts = Attempts(failing)
    with pytest.raises(TasksFailed):
        count(one, attempts)
    one.commit({"0": 5}, [], count(one, attempts))
    one.commit({"0": 6}, [], count(one, attempts))
    (first, failed), (again, token), (second, kept) = attempts.seen
    assert (first, again, second) == (1, 1, 2)
    assert failed != token == kept  # an epoch goes on while nothing is counted twice
    assert [commit.token for commit in log.commits] == [token, token]
    assert attempts.readable[2] == CommittedColumns(1, Epochs((1,), (token,)))


def test_a_batch_with_doubles_of_another_file_is_counted_under_another_token() -> None:
    one, log = writer()
    seen = ByteLedger.from_table(pa.table({"host": ["h"], "src_file": ["f"], "start": [0], "end": [9]}))
    both = replace(NOTHING, seen=[seen.to_table(), seen.to_table()])
    attempts = Attempts(both, replace(NOTHING, seen=[seen.to_table()]))
    one.commit({"0": 5}, [], count(one, attempts))
    (_, slipped), (_, token) = attempts.seen
    assert slipped != token == log.commits[0].token


def test_a_commit_without_lines_has_the_token_of_no_attempt_that_failed() -> None:
    one, log = writer()
    attempts = Attempts()
    one.commit({"0": 5}, [], count(one, attempts))
    one.commit({"0": 5}, [], nothing())
    assert [commit.token for commit in log.commits] == [attempts.seen[0][1]] * 2
    assert log.commits[1].periods == []


def test_a_wide_period_is_spread_until_it_needs_a_wider_layout() -> None:
    one, log = writer()
    found = [stated(1), stated(4), stated(4, widen=True), stated(8), NOTHING.stated]
    attempts = Attempts(*(replace(NOTHING, stated=each) for each in found))
    for end in range(5):
        one.commit({"0": end}, [], count(one, attempts))
    key = (1, 1, 0)
    assert attempts.spread == [{}, {}, {key: 4}, {}, {key: 8}]
    assert [commit.periods for commit in log.commits][1] == [StatePeriod(1, 1, 0, 4, 1, 2, 400)]
    assert one._known.all()[key].seq == 4


def test_a_period_with_a_block_that_cannot_be_written_is_laid_out_in_the_same_batch() -> None:
    one, log = writer()
    parts = [stated(4), stated(4, widen=True, late=True), stated(16)]
    attempts = Attempts(*(replace(NOTHING, stated=each) for each in parts))
    one.commit({"0": 5}, [], count(one, attempts))
    one.commit({"0": 6}, [], count(one, attempts))
    assert [seq for seq, _ in attempts.seen] == [1, 2, 2]
    assert attempts.seen[1][1] != attempts.seen[2][1] == log.commits[1].token
    assert attempts.spread == [{}, {(1, 1, 0): 4}, {}]
    assert log.commits[1].periods[0].layout == 16


def test_what_a_layout_left_behind_is_deleted_after_the_commit() -> None:
    one, _ = writer()
    old = [{"row": b"1v1/0/1/0", "column": name} for name in (b"s:1", b"s:2")]
    found = replace(NOTHING, outgrown=pa.Table.from_pylist(old, schema=OUTGROWN))
    deleted: list[Any] = []
    hbase: Any = SimpleNamespace(delete=lambda table, rows: deleted.append((table, list(rows))))
    counted = count(one, Attempts(found))
    one.prune(hbase)
    one.commit({"0": 5}, [], counted)
    one.prune(hbase)
    one.prune(hbase)
    assert deleted == [("state", []), ("state", [(b"1v1/0/1/0", [b"s:1", b"s:2"])]), ("state", [])]


def test_a_period_in_parts_has_the_blocks_of_all() -> None:
    both = pa.concat_tables([stated(8, size=300, blocks=2), stated(8, size=100, blocks=2)])
    counted = count(writer()[0], Attempts(replace(NOTHING, stated=both)))
    assert counted.periods == [StatePeriod(1, 1, 0, 8, 1, 1, 800)]
    assert counted.blocks == 4


def test_periods_of_the_newest_commit_are_dealt_out_by_their_size() -> None:
    one, _ = writer()
    rows = [
        {**stated(1, size=size).to_pylist()[0], "task_id": task}
        for task, size in enumerate((30, 20, 10, 25), 1)
    ]
    attempts = Attempts(replace(NOTHING, stated=pa.Table.from_pylist(rows, schema=STATED)))
    one.commit({"0": 5}, [], count(one, attempts))
    count(one, attempts)
    assert attempts.homes == [{}, {(1, 1, 0): 0, (4, 1, 0): 1, (2, 1, 0): 2, (3, 1, 0): 2}]


def test_a_small_batch_has_one_task_that_can_lay_out_every_period() -> None:
    one, _ = writer()
    attempts = Attempts(replace(NOTHING, stated=stated(4)))
    one.commit({"0": 5}, [], count(one, attempts))
    one.count(PLAN, None, attempts, Laps(), small=True)
    one.count(PLAN, None, attempts, Laps())
    assert attempts.spread[1:] == [{}, {(1, 1, 0): 4}]
    assert attempts.tasks == [3, 1, 3]


def lost(*starts: int) -> pa.Table:
    rows = [vars(StatePeriod(1, 1, start, 1, 1, 1, 100)) | {"why": "block is lost"} for start in starts]
    return pa.Table.from_pylist(rows, schema=DAMAGED)


class LostBlocks:
    """In the place of the stores: the set-aside list of periods whose blocks HBase lost."""

    def __init__(self, *still: int) -> None:
        self.still = {(1, 1, start) for start in still}  # what others did not change meanwhile
        self.noted: list[BlockDamage] = []

    def recounts(self, topic: str) -> Any:
        return self

    def set_aside(self, damages: list[BlockDamage]) -> set[PeriodKey]:
        self.noted += damages
        return {each.key for each in damages} & self.still


def test_a_batch_that_meets_lost_blocks_is_counted_again_with_periods_that_begin_anew() -> None:
    one, log = writer()
    stores: Any = LostBlocks(0, 60_000)
    one._stores = stores
    attempts = Attempts(replace(NOTHING, stated=stated(4)))
    one.commit({"0": 5}, [], count(one, attempts))
    attempts.found = [replace(NOTHING, damaged=lost(0, 60_000)), replace(NOTHING, stated=stated(1))]
    one.commit({"0": 6}, [], count(one, attempts))
    assert [each.key for each in stores.noted] == [(1, 1, 0), (1, 1, 60_000)]
    assert attempts.spread == [{}, {(1, 1, 0): 4}, {}]  # the writer does not know the period any more
    assert attempts.seen[1][1] != attempts.seen[2][1] == log.commits[1].token


def test_a_block_that_is_missing_because_its_period_changed_ends_the_writer() -> None:
    """Retention dropped the period, or another writer replaced the block: nothing is set aside."""
    one, log = writer()
    stores: Any = LostBlocks()
    one._stores = stores
    with pytest.raises(StateChanged, match="its period has changed: the batch is counted again"):
        count(one, Attempts(replace(NOTHING, damaged=lost(0))))
    assert log.commits == []


class Dropping(Log):
    """Retention or a rebuild takes the period before the commit."""

    def __init__(self, *periods: PeriodKey) -> None:
        super().__init__()
        self.periods = list(periods)

    def append(self, commit: Commit) -> None:
        if self.periods and commit.seq > 1:
            gone, self.periods = self.periods, []
            raise PeriodsGone("logs", gone)
        super().append(commit)


def test_a_batch_whose_period_was_taken_is_counted_again_by_the_same_writer() -> None:
    key = (1, 1, 0)
    one, _ = writer()
    log: Any = Dropping(key)
    one._commits = log
    attempts = Attempts(*(replace(NOTHING, stated=stated(4)) for _ in range(3)))
    one.commit({"0": 5}, [], count(one, attempts))
    with pytest.raises(PeriodsGone) as taken:
        one.commit({"0": 6}, [], count(one, attempts))
    assert (one.seq, one.position) == (1, {"0": 5})
    one.forget(taken.value.periods)
    one.commit({"0": 6}, [], count(one, attempts))
    assert attempts.spread == [{}, {key: 4}, {}]
    assert attempts.seen[1][1] != attempts.seen[2][1] == log.commits[1].token
