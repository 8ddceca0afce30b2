"""A short form of the laboratory's experiment on live brokers."""

from __future__ import annotations

import pytest

from sluice_lab.runs import RunKey
from sluice_lab.tables import selected
from sluice_lab.transmission.agreement import agrees
from sluice_lab.transmission.computed import rows
from sluice_lab.transmission.experiments import GroupPlan, live
from sluice_lab.transmission.measures import rows as measured
from sluice_lab.transmission.rivals import OURS
from sluice_lab.transmission.run import GroupTimes

pytestmark = [pytest.mark.stack, pytest.mark.long]

#: Paper 003's scenario under each protocol: eager, KIP-848 (where range depends on random ids), cooperative.
RUNS = [RunKey("paper", contender, 0) for contender in ("range", "kip848-uniform", "kip848-range", OURS)]


def test_live_brokers_end_every_phase_as_the_assignors_computed() -> None:
    """A phase lasts until the group is stable, so a slow machine only takes longer.

    Ours goes by number, because on a busy machine equal members are not equally fast.
    """
    computed = list(rows(["paper"], repeats=1))
    plan = GroupPlan(times=GroupTimes(settle=1.0, gap=1.0, most=120.0), by_load=False)
    for key, log in live(plan, RUNS):
        phases = list(measured(log, key.run))
        assert len(phases) == 1 + len(log.scenario.steps)
        for row in phases:
            assert row["settled"], row
        expected = selected(computed, strategy=key.contender)
        assert agrees(phases, expected) == len(phases), (phases, expected)
