"""A short form of paper 003's experiment on live brokers."""

from __future__ import annotations

import pytest

from sluice.lab.transmission.bars import CLOSE
from sluice.lab.transmission.computed import rows
from sluice.lab.transmission.experiments import Plan, live
from sluice.lab.transmission.rivals import OURS
from sluice.lab.transmission.run import Times

pytestmark = [pytest.mark.stack, pytest.mark.slow]

CONTENDERS = ("range", "cooperative-sticky", OURS)


def test_live_brokers_end_every_phase_as_the_assignors_computed() -> None:
    computed = {(row["strategy"], row["step"]): float(row["number"]) for row in rows(["paper"], repeats=1)}
    found = live(Plan(("paper",), CONTENDERS, runs=1, times=Times(settle=8.0, gap=5.0)))
    assert len(found.live) == 3 * len(CONTENDERS)
    for row in found.live:
        assert abs(float(row["number"]) - computed[row["strategy"], row["step"]]) < CLOSE, row
        assert row["step"] == "start" or 0 < float(row["worst"]) < 5, row
