"""Both sides in the stores: a reader sees each series once while days are published and lines are counted."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest

from sluice.results.layers import StoredLayers
from sluice.state import finals
from sluice.state.finals import FinalMissing
from sluice.state.series import of_partials
from sluice.storage.hbase import FINALS, FINALS_FAMILY, HBase
from sluice.storage.tables.commits import DayLines
from sluice.storage.tables.finals import BlocksSwept, FinalRange
from sluice_lab.waiting import SECONDS
from tests.results.hours import DAY, DAY_MS, FIRST, Hours, counting, direct

__all__ = ["counting"]  # a fixture

pytestmark = pytest.mark.stack


def test_a_period_comes_from_the_state_until_its_day_is_published(counting: Hours) -> None:
    counting.commit(counting.partials)
    rows, states = counting.read()
    assert (rows, set(states.values())) == (direct(), {"open"})
    counting.publish()
    rows, states = counting.read()
    assert rows == direct()
    assert [state for _, state in sorted(states.items())] == ["final"] * 24 + ["open"] * 24


def test_a_late_line_shows_as_superseded_and_a_period_that_is_new_shows_open(counting: Hours) -> None:
    whole, before = counting.partials, counting.partials.slice(3)  # the day's first hour has no line yet
    assert set(before.column("period_start").to_pylist()) != set(whole.column("period_start").to_pylist())
    counting.partials = before
    counting.commit(before)
    counting.publish()
    late = [DayLines(DAY, 0, 3, counting.seq)]
    counting.commit(whole.slice(0, 3), late)
    rows, states = counting.read()
    assert rows == direct()
    assert [state for _, state in sorted(states.items())] == ["open"] + ["superseded"] * 23 + ["open"] * 24


def test_publishing_again_replaces_the_blocks_and_the_old_ones_go_later(counting: Hours) -> None:
    counting.commit(counting.partials)
    (old,) = counting.publish()
    layers = StoredLayers(counting.settings)
    began = layers.sides(counting.task, FIRST, FIRST + DAY_MS)
    (new,) = counting.publish()
    assert {block.row for block in old.blocks}.isdisjoint(block.row for block in new.blocks)
    # A reader that began before still finds what it was promised.
    assert sum(rows.num_rows for rows in layers.final(counting.task, began.final[0].blocks)) == 72
    with HBase.of(counting.settings) as hbase:
        assert finals.sweep(hbase, counting.book) == 0
        assert finals.sweep(hbase, counting.book, timedelta(seconds=-60)) == len(old.blocks)
        assert not hbase.get(FINALS, [block.row.encode() for block in old.blocks], [FINALS_FAMILY])
    with pytest.raises(FinalMissing, match=old.blocks[0].row):
        list(StoredLayers(counting.settings).final(counting.task, old.blocks))
    assert counting.read()[0] == direct()
    counting.book.publish(DAY, {"0": 1}, [new])  # as after an answer that was lost
    counting.book.forget(counting.book.of_topic())
    assert set(counting.read()[1].values()) == {"open"}


def test_a_publication_whose_blocks_were_swept_changes_nothing(counting: Hours) -> None:
    counting.commit(counting.partials)
    (range_,) = counting.publish()
    with HBase.of(counting.settings) as hbase:
        rows = [of_partials(counting.partials.slice(0, 3), counting.task)]
        blocks = finals.write(hbase, counting.book.reserve, "slow", rows)
        finals.sweep(hbase, counting.book, timedelta(seconds=-60))
    slow = FinalRange(*(range_.task_id, 1, range_.first, range_.until, DAY, DAY, "slow", blocks))
    with pytest.raises(BlocksSwept):
        counting.book.publish(DAY, {"0": 1}, [slow])
    assert counting.book.of_topic() == [range_]


def test_each_series_is_read_once_while_a_day_is_published_again_and_again(counting: Hours) -> None:
    """Readers run throughout, and commits rewrite the open periods; the day is published and forgotten."""
    counting.commit(counting.partials)
    problems: list[object] = []
    seen: set[str] = set()
    stop = threading.Event()
    more = counting.partials.slice(72, 3)

    def reader() -> None:
        layers = StoredLayers(counting.settings)
        while not stop.is_set():
            rows, states = counting.read(layers)
            first_day = {state for start, state in states.items() if start < FIRST + DAY_MS}
            seen.update(first_day)
            # Of the second day's first hour some batch counts more each time; of all others nothing changes.
            rest = [row for row in rows if row[0] != FIRST + DAY_MS]
            grown = {row[2] for row in rows if row[0] == FIRST + DAY_MS}
            if rest != [row for row in direct() if row[0] != FIRST + DAY_MS] or len(grown) != 1:
                problems.append((len(rows), grown))
            if len(first_day) != 1:
                problems.append(first_day)

    threads = [threading.Thread(target=reader) for _ in range(2)]
    for thread in threads:
        thread.start()
    end, published = time.monotonic() + 8, 0
    while (time.monotonic() < end or published <= 5 or not {"final", "open"} <= seen) and not problems:
        counting.publish()
        counting.commit(more)
        published += 1
        if published % 3 == 0:
            counting.book.forget(counting.book.of_topic())
    stop.set()
    for thread in threads:
        thread.join(SECONDS)
    assert published > 5
    assert {"final", "open"} <= seen <= {"final", "open", "superseded"}
    assert not problems, problems[:3]
