from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.state import changed_periods as module
from sluice.state.changed_periods import KnownPeriods
from sluice.storage.tables.epochs import StatePeriod
from tests.examples import examples


def period(start: int, layout: int = 1, *, seq: int = 1, size: int = 10) -> StatePeriod:
    return StatePeriod(1, 1, start, layout, 1, seq, size)


def test_the_newest_periods_are_known_and_old_ones_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KNOWN", 2)
    known = KnownPeriods()
    known.committed([period(0), period(1, 4)], [(1, 1, 1)])
    known.committed([period(0), period(2, 2)], [])
    assert list(known.all()) == [(1, 1, 0), (1, 1, 2)]
    assert known.spread() == {(1, 1, 2): 2}
    known.committed([period(1, 4)], [])  # that it had to be whole is forgotten with it
    assert known.spread() == {(1, 1, 2): 2, (1, 1, 1): 4}


@examples(60)
@given(sizes=st.lists(st.integers(1, 1_000), max_size=40), tasks=st.integers(1, 16))
def test_no_task_has_more_than_its_share_and_a_period(sizes: list[int], tasks: int) -> None:
    known = KnownPeriods()
    known.committed([period(start, size=size) for start, size in enumerate(sizes)], [])
    loads = [0] * tasks
    for (_, _, start), task in known.homes(tasks).items():
        loads[task] += sizes[start]
    assert sum(loads) == sum(sizes)
    assert max(loads) <= sum(sizes) / tasks + max(sizes, default=0)


def test_the_driver_chooses_for_whole_periods_that_the_newest_commit_changed() -> None:
    known = KnownPeriods()
    assert known.homes(2) == {}
    known.committed([period(0), period(1)], [])
    wide, growing = period(2, 4, seq=2), period(3, 4, seq=2, size=50)
    known.committed([wide, growing, period(4, seq=2), period(5, seq=2)], [growing.key])
    # The wide one is spread; the growing one is whole, because one task has to lay it out again.
    assert known.homes(2) == {growing.key: 0, (1, 1, 4): 1, (1, 1, 5): 1}
