from __future__ import annotations

import pytest

from sluice.state import periods as module
from sluice.state.periods import KnownPeriods
from sluice.storage.epochs import StatePeriod


def period(start: int, layout: int = 1) -> StatePeriod:
    return StatePeriod(1, 1, start, layout, 1, 1, 10)


def test_the_newest_periods_are_known_and_old_ones_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KNOWN", 2)
    known = KnownPeriods()
    known.committed([period(0), period(1, 4)], [(1, 1, 1)])
    known.committed([period(0), period(2, 2)], [])
    assert list(known.all()) == [(1, 1, 0), (1, 1, 2)]
    assert known.spread() == {(1, 1, 2): 2}
    known.committed([period(1, 4)], [])  # that it had to be whole is forgotten with it
    assert known.spread() == {(1, 1, 2): 2, (1, 1, 1): 4}
