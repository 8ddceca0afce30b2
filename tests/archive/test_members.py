"""Archivers of several partitions, and what they write of their rebalances."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.archive.rebalances import DIED
from sluice.monitoring.lag.cost import costs
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables.rebalances import KEPT, Rebalance, last
from sluice_lab.waiting import until
from tests.archive.archive_trial import Trial, trial_of

pytestmark = pytest.mark.stack

PARTITIONS = 8


@pytest.fixture
def trial(stack: Settings, tmp_path: Path) -> Iterator[Trial]:
    with trial_of(stack, tmp_path, PARTITIONS) as trial:
        yield trial


def reads_all(trial: Trial) -> bool:
    """Whether the members say that they read all partitions. The broker knows their owners sooner."""
    found = [trial.partitions(process) for process in trial.processes]
    positions = [each["position"] for partitions in found for each in partitions.values()]
    return all(found) and len(positions) == PARTITIONS and None not in positions


def written(trial: Trial) -> list[Rebalance]:
    """What the members wrote of rebalances, the newest first."""
    with engine(trial.settings).connect() as connection:
        return last(connection, trial.topic, KEPT)


def gains(trial: Trial) -> list[Rebalance]:
    """A row for each partition that was gained and read."""
    return [row for row in written(trial) if row.gained and row.seconds is not None]


def test_an_archiver_that_was_killed_and_is_back_says_how_long_its_partitions_stood_still(
    trial: Trial,
) -> None:
    trial.produce(50)
    killed = trial.process()
    until(lambda: len(gains(trial)) == PARTITIONS, what="it reads its partitions")
    until(lambda: reads_all(trial), what="its heartbeat says so")
    killed.kill()
    killed.wait()
    shutil.copy(trial.scratch / "progress-0.json", trial.scratch / "progress-1.json")
    trial.process()
    until(lambda: len(gains(trial)) >= 2 * PARTITIONS, what="the next process reads them")
    (died,) = until(
        lambda: [row for row in written(trial) if row.why == DIED], what="it says when that one died"
    )
    assert died.lost == tuple(range(PARTITIONS))
    shown = costs(written(trial), KEPT)
    stood_still = {at: seconds for each in reversed(shown) for at, seconds in each.by_partition.items()}
    for gain in gains(trial)[:PARTITIONS]:
        outage = (gain.at - died.at).total_seconds() + (gain.seconds or 0.0)
        assert stood_still[gain.gained[0]] == pytest.approx(outage)
