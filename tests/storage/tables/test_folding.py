"""Old commits are summed up, and every reader of commits is answered as before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from sluice.storage.tables import commit_progress, folding, schema, topic_totals
from sluice.storage.tables.commits import Commit, CommitLog, FencedOut
from sluice.storage.tables.days import Days
from sluice.storage.tables.folding import fold
from sluice.storage.tables.retention import RetentionBook
from tests.examples import examples
from tests.tasks.database import sqlite

NEWEST = datetime(2026, 1, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Made:
    """A commit: its age in minutes, and its lines; `again`: the topic was made again before it."""

    age: int
    lines: int
    again: bool = False


def fresh() -> sa.Engine:
    engine = sqlite()
    with engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        raw.create_function("hashtextextended", 2, lambda text, seed: 1)
        raw.create_function("greatest", 2, max)
    return engine


def put(engine: sa.Engine, made: Sequence[Made], projected: int, referred: Sequence[int]) -> None:
    position, generation = 0, 0
    rows = []
    for seq, one in enumerate(made, start=1):
        generation += one.again
        rows.append(
            {
                "topic": "logs", "seq": seq, "token": f"t{seq % 3}", "topic_id": f"id{generation}",
                "committed_at": NEWEST - timedelta(minutes=one.age), "tasks": [[1, 1]],
                "start": {"0": position}, "end": {"0": position + one.lines},
                "counts": {"records": one.lines, "doubled": 0, "counted": one.lines, "dead": 0},
            }
        )  # fmt: skip
        position += one.lines
    with engine.begin() as connection:
        connection.execute(sa.insert(schema.commits), rows)
        connection.execute(sa.insert(schema.projections).values(topic="logs", seq=projected))
        values = {"topic": "logs", "lines": 5, "partition": 0}
        for number, seq in enumerate(referred):
            day = date(2026, 1, 1) + number * DAY
            row = {**values, "day": day, "last_offset": number}
            connection.execute(sa.insert(schema.event_days).values(**row))
            Days(engine, "logs").set_computed(
                day, cut={"0": position}, run_id="r", tasks_seq=seq, raw_lines=5, lines=5, backfills=0
            )


def open_version(engine: sa.Engine, seq: int, start: int, end: int | None) -> None:
    """A task version that a commit opened, and perhaps a later one closed."""
    offsets = {"start": {"0": start}, "end": None if end is None else {"0": end}}
    row = {"task_id": 1, "version": seq, "first_seq": seq, "topic": "logs", **offsets}
    with engine.begin() as connection:
        connection.execute(sa.insert(schema.task_ranges).values(**row))


def answers(engine: sa.Engine, seqs: Sequence[int]) -> dict[str, Any]:
    """What those who read commits are told; of the floor, that of a time at which a day ended."""
    log = CommitLog(engine, "logs")
    with engine.connect() as connection:
        totals = topic_totals.read(connection, "logs", date(2026, 1, 20))
        rate = commit_progress.committed(connection, "logs", NEWEST - timedelta(minutes=1))
    midnights = [datetime(2026, 1, number, tzinfo=UTC) for number in range(10, 21)]
    book = RetentionBook(engine, "logs")
    return {
        "totals": asdict(totals),
        "head": log.head(),
        "newest": log.newest(),
        "passed": [log.passed({"0": cut}) for cut in range(0, 60, 3)],
        "rate": rate,
        "speed": commit_progress.newest_commits(engine, ["logs"]),
        "young": [log.head(seq) for seq in seqs],
        "marked": Days(engine, "logs").marked(),
        "floors": [floor and floor.end for floor in map(book.floor, midnights) if floor],
    }


def rows(engine: sa.Engine) -> list[sa.Row[Any]]:
    with engine.connect() as connection:
        return list(connection.execute(sa.select(schema.commits).order_by(schema.commits.c.seq)))


commits = st.lists(
    st.builds(Made, st.integers(0, 9 * 1440), st.integers(0, 9), st.integers(0, 9).map(lambda n: n == 0)),
    min_size=1,
    max_size=40,
).map(lambda made: sorted(made, key=lambda one: -one.age))


@examples(60)
@given(made=commits, data=st.data(), portion=st.integers(2, 12))
def test_all_that_read_commits_are_answered_as_before(
    made: list[Made], data: st.DataObject, portion: int
) -> None:
    numbers = st.integers(1, len(made))
    projected = data.draw(numbers)
    referred = data.draw(st.lists(numbers, max_size=3))
    engine, before = fresh(), NEWEST - DAY
    put(engine, made, projected, referred)
    ends = [row.end["0"] for row in rows(engine)]
    for seq in data.draw(st.sets(numbers, max_size=3)):
        later = st.sampled_from(ends[seq - 1 :])
        open_version(engine, seq, ends[seq - 1], data.draw(st.none() | later))
    young = [seq for seq, one in enumerate(made, 1) if seq >= projected or one.age <= 1440]
    kept = sorted({*young, *referred})
    first, there = answers(engine, kept), {row.seq: row for row in rows(engine)}
    saved = fold(engine, "logs", before, portion)
    assert answers(engine, kept) == first
    left = rows(engine)
    assert len(left) == len(made) - saved
    assert [row.end for row in left] == [there[row.seq].end for row in left]
    assert left[0].start == there[1].start
    assert all(one.end == other.start for one, other in pairwise(left))
    # A row for each day, generation of the topic, commit that is referred to, and commit that is open.
    kinds = {(row.committed_at.date(), row.topic_id) for row in there.values()}
    assert len(left) <= len(kinds) + len(kept) + 1
    assert fold(engine, "logs", before, portion) == 0


def test_a_fold_that_is_killed_loses_nothing_and_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [Made(4 * 1440 - number, 3) for number in range(30)]
    engine = fresh()
    put(engine, made, 30, [])
    first, deaths = answers(engine, []), iter([False, True])

    def killed(_point: str) -> None:
        if next(deaths, False):
            raise KeyboardInterrupt

    monkeypatch.setattr(folding, "crash_point", killed)
    with pytest.raises(KeyboardInterrupt):
        fold(engine, "logs", NEWEST, portion=10)
    assert 1 < len(rows(engine)) < 30
    assert answers(engine, []) == first
    fold(engine, "logs", NEWEST, portion=10)
    assert answers(engine, []) == first
    (one,) = rows(engine)
    assert (one.seq, one.start, one.end, one.counts["counted"]) == (30, {"0": 0}, {"0": 90}, 90)


def test_a_commit_that_is_folded_is_answered_by_the_one_that_has_it() -> None:
    engine = fresh()
    put(engine, [Made(3 * 1440 - number, 1) for number in range(5)] + [Made(0, 1)], 6, [])
    fold(engine, "logs", NEWEST - DAY)
    found = [CommitLog(engine, "logs").head(seq) for seq in (0, 2, 5, 6, 99)]
    assert [head and head.seq for head in found] == [None, 5, 5, 6, 6]


def test_a_writer_that_was_away_for_days_does_not_get_a_number_that_was_folded() -> None:
    engine = fresh()
    put(engine, [Made(3 * 1440 - number, 1) for number in range(5)] + [Made(0, 1)], 6, [])
    fold(engine, "logs", NEWEST - DAY)
    before = rows(engine)
    log = CommitLog(engine, "logs", patience=1)
    late = Commit(3, "zombie", "id0", NEWEST, {"0": 2}, {"0": 3}, [], {"lines": 1, "counted": 1})
    with pytest.raises(FencedOut, match="commit 3 was made by another writer, which is at 6 now"):
        log.append(late)
    assert rows(engine) == before
    log.append(replace(late, seq=7, start={"0": 6}, end={"0": 7}))
    assert log.newest() == 7


def test_the_sums_of_a_day_may_have_more_than_32_bits() -> None:
    engine = fresh()
    put(engine, [Made(3 * 1440 - number, 2_000_000_000) for number in range(4)], 4, [])
    fold(engine, "logs", NEWEST)
    with engine.connect() as connection:
        assert topic_totals.read(connection, "logs", NEWEST.date()).counted == 8_000_000_000


def test_the_commit_whose_results_are_shown_last_outlives_retention() -> None:
    engine = fresh()
    put(engine, [Made((9 - number) * 1440, 1) for number in range(8)], 3, [])
    book, log = RetentionBook(engine, "logs"), CommitLog(engine, "logs")
    floor = book.floor(NEWEST - DAY)
    assert floor is not None
    assert (book.prune_commits(floor), log.passed({"0": 3}), log.passed({"0": 4})) == (2, True, False)
