"""Open periods are read as of one commit, whatever is kept and whatever is committed meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.results import opened
from sluice.results.opened import OpenPeriods
from sluice.state.merging import merge_into_blocks
from sluice.state.series import START, of_partials
from sluice.state.state import AttemptState
from sluice.storage.tables.epochs import CommittedColumns, Epochs, PeriodKey, Snapshot, StatePeriod
from sluice.storage.tables.finals import Sides
from sluice.storage.tables.recounts import BlockDamage
from tests.engine.samples import active, line, plan, records, spec
from tests.examples import examples

BEGIN = datetime(2015, 5, 17, tzinfo=UTC)
MINUTE = 60_000
FIRST = int(BEGIN.timestamp()) * 1000
(TASK,) = active(spec(dimensions=[{"name": "client", "extract": {"delimiter": " ", "index": 0}}]))
TOKEN = "token"
#: A batch: minutes and clients of its lines.
Lines = list[tuple[int, int]]
BATCHES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=6)


class Platform:
    """HBase's table `state` and the commits of one topic, in memory."""

    def __init__(self) -> None:
        self.rows: dict[bytes, dict[bytes, bytes]] = {}
        self.periods: dict[PeriodKey, StatePeriod] = {}
        self.lines: list[Lines] = []  # of each commit
        self.gets = 0
        self.meanwhile: list[Lines] = []  # what is committed while blocks are read

    # In the place of HBase

    def get(self, table: str, rows: Sequence[bytes], columns: Any) -> dict[bytes, dict[bytes, bytes]]:
        self.gets += 1
        if self.meanwhile:
            self.commit(self.meanwhile.pop())
        return {row: dict(self.rows[row]) for row in rows if row in self.rows}

    def rewrite(
        self, table: str, rows: Iterable[tuple[bytes, Mapping[bytes, bytes], Sequence[bytes]]]
    ) -> None:
        for row, cells, gone in rows:
            kept = {name: data for name, data in self.rows.get(row, {}).items() if name not in gone}
            self.rows[row] = kept | dict(cells)

    # In the place of the commit log

    @property
    def head(self) -> int:
        return len(self.lines)

    def newest(self) -> int:
        return self.head

    def snapshot(self, wanted: Iterable[PeriodKey]) -> Snapshot:
        known = {key: self.periods[key] for key in wanted if key in self.periods}
        return Snapshot(CommittedColumns(self.head, Epochs.of([(0, TOKEN)])), BEGIN, known)

    def pointers(self, wanted: Iterable[PeriodKey]) -> list[Any]:
        return []

    def commit(self, lines: Lines) -> None:
        seq, meanwhile, self.meanwhile = self.head + 1, self.meanwhile, []
        state = AttemptState(
            self, CommittedColumns(self.head, Epochs.of([(0, TOKEN)])), seq, TOKEN, self.newest
        )  # type: ignore[arg-type]
        state.know(self.periods)
        layouts = {key: period.layout for key, period in self.periods.items()}
        changes = merge_into_blocks(partials(lines), layouts, state.load)
        state.write(changes.blocks, changes.deltas)
        for block, data in changes.blocks.items():
            since = self.periods[block.period].since if block.period in self.periods else seq
            self.periods[block.period] = StatePeriod(*block.period, block.layout, since, seq, len(data))
        self.lines.append(lines)
        self.meanwhile = meanwhile

    def sides(self) -> Sides:
        state = {key[2]: period for key, period in self.periods.items()}
        return Sides((), frozenset(), tuple(sorted(state)), state, {}, self.head)

    def exact(self, commit: int, starts: Sequence[int]) -> pa.Table:
        """What these periods have as of a commit, counted at once."""
        rows = of_partials(partials([each for lines in self.lines[:commit] for each in lines]), TASK)
        return rows.filter(pc.is_in(rows.column(START), pa.array(starts, pa.int64())))


def partials(lines: Lines) -> pa.Table:
    texts = [line(client=f"c{client}", at=BEGIN + timedelta(minutes=minute)) for minute, client in lines]
    return merge(count(records(texts), plan(TASK.spec)).partials)


def reading(platform: Platform, most: int = opened.GROUPS_BYTES) -> OpenPeriods:
    return OpenPeriods(platform, platform, most)  # type: ignore[arg-type]


@pytest.fixture(autouse=True, scope="module")
def in_memory() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opened, "GROUP_PERIODS", 3)
        patch.setattr(opened, "CommitLog", lambda platform, *_: platform)
        patch.setattr(opened, "Backfills", lambda platform, *_: platform)
        yield


@pytest.mark.slow
@given(
    batches=st.lists(BATCHES, min_size=1, max_size=4),
    later=st.lists(st.tuples(BATCHES, st.lists(BATCHES, max_size=3)), max_size=4),
)
@examples(60)
def test_periods_are_exact_as_of_one_commit_while_others_are_made(
    batches: list[Lines], later: list[tuple[Lines, list[Lines]]]
) -> None:
    platform = Platform()
    for lines in batches:
        platform.commit(lines)
    periods = reading(platform)
    for lines, meanwhile in [(batches[0], []), *later]:
        sides = platform.sides()
        platform.commit(lines)  # after the sides were decided
        platform.meanwhile = list(meanwhile)
        found = periods.read(TASK, sides, sides.open)
        assert sides.head <= found.commit <= platform.head
        wanted = platform.exact(found.commit, sides.open)
        assert found.rows.to_pylist() == wanted.to_pylist()
        assert [row for part in found.parts for row in part.rows.to_pylist()] == wanted.to_pylist()
        platform.meanwhile = []
        now, before = platform.sides(), platform.gets
        again = periods.read(TASK, now, sides.open)
        assert (again.commit, platform.head) == (now.head, now.head)
        assert again.rows.to_pylist() == platform.exact(now.head, sides.open).to_pylist()
        before = platform.gets
        same = periods.read(TASK, now, sides.open)
        assert platform.gets == before
        assert [part.name for part in same.parts] == [part.name for part in again.parts]


def test_only_the_groups_that_a_commit_touched_are_read_again() -> None:
    platform = Platform()
    platform.commit([(minute, 0) for minute in range(12)])
    periods = reading(platform)
    before = periods.read(TASK, platform.sides(), platform.sides().open)
    platform.commit([(4, 1)])
    after = periods.read(TASK, platform.sides(), platform.sides().open)
    same = [old.name == new.name for old, new in zip(before.parts, after.parts, strict=True)]
    assert same == [True, False, True, True]


def test_what_does_not_fit_into_memory_is_read_each_time() -> None:
    platform = Platform()
    platform.commit([(minute, 0) for minute in range(12)])
    periods = reading(platform, most=0)
    for _ in range(2):
        before, sides = platform.gets, platform.sides()
        assert periods.read(TASK, sides, sides.open).rows.num_rows == 12
        assert platform.gets == before + 1


class AsideList:
    """The set-aside list, in the place of PostgreSQL's, beside a platform in memory."""

    def __init__(self, platform: Platform, *_: Any) -> None:
        self.platform = platform

    def set_aside(self, damages: Iterable[BlockDamage]) -> set[PeriodKey]:
        gone = {each.key for each in damages if self.platform.periods.get(each.key) == each.of}
        for key in gone:
            del self.platform.periods[key]
        return gone


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "Recounts", AsideList)


def lose(platform: Platform, start: int, data: bytes | None = None) -> None:
    """HBase loses the period's blocks, or has garbage in their place."""
    for row in [each for each in platform.rows if each.split(b"/")[1] == b"%d" % start]:
        if data is None:
            del platform.rows[row]
        else:
            platform.rows[row] = dict.fromkeys(platform.rows[row], data)


@pytest.mark.parametrize("data", [None, b"garbage"])
def test_a_period_with_a_lost_block_is_left_out_and_named(listing: None, data: bytes | None) -> None:
    platform = Platform()
    platform.commit([(minute, 0) for minute in range(6)])
    sides = platform.sides()
    lose(platform, sides.open[2], data)
    periods = reading(platform)
    found = periods.read(TASK, sides, sides.open)
    left = [start for start in sides.open if start != sides.open[2]]
    assert found.recounted == {sides.open[2]}
    assert found.rows.equals(platform.exact(1, left))
    assert periods.read(TASK, platform.sides(), left).recounted == frozenset()


def test_everything_lost_is_named_at_once(listing: None) -> None:
    platform = Platform()
    platform.commit([(minute, 0) for minute in range(9)])
    sides = platform.sides()
    platform.rows.clear()
    found = reading(platform).read(TASK, sides, sides.open)
    assert (found.rows.num_rows, found.recounted) == (0, frozenset(sides.open))
    assert platform.periods == {}


def test_a_period_that_began_anew_since_the_sides_were_decided_is_no_smaller_number(listing: None) -> None:
    platform = Platform()
    platform.commit([(0, 0), (0, 1), (1, 0)])
    sides = platform.sides()
    lose(platform, sides.open[0])
    AsideList(platform).set_aside([BlockDamage(each.key, "", each) for each in [sides.state[sides.open[0]]]])
    platform.commit([(0, 0)])
    found = reading(platform).read(TASK, sides, sides.open)
    assert found.recounted == {sides.open[0]}
    assert found.rows.to_pylist() == platform.exact(1, sides.open[1:]).to_pylist()
