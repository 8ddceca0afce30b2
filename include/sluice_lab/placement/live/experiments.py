"""All runs with real units, in turns; docs/placement keeps their rows, run by run.

live: the phases of each run. live_moves: each move. live_samples: each second.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice_lab import runs
from sluice_lab.placement.live import measures
from sluice_lab.placement.live.run import LiveLaboratory, LiveRunLog
from sluice_lab.placement.live.scenarios import SCENARIOS, TIMES, LiveTimes
from sluice_lab.runs import KeptRuns, RunKey
from sluice_lab.trials import Row

#: In the order in which they are written.
FILES = ("live_samples", "live_moves", "live")
#: Of a run, beside its phases: placing, moves, reading; in `uneven` until the watch knows loads.
_PLACE_SECONDS, _MOVE_SECONDS, _START_SECONDS, _LOADS_SECONDS = 40.0, 12.0, 120.0, 90.0
_MOVES = 5

Say = Callable[[str], None]


@dataclass(frozen=True)
class LivePlan:
    """What is measured. runs: of each scenario."""

    runs: int
    times: LiveTimes = TIMES

    def order(self) -> list[RunKey]:
        """Every run: scenarios take turns, and each round begins with another one."""
        every = list(SCENARIOS.values())
        return [
            RunKey(each.name, each.start, number)
            for number in range(self.runs)
            for each in [*every[number % len(every) :], *every[: number % len(every)]]
        ]


class LiveRuns(KeptRuns):
    """The kept runs of a folder. One that lost a line, or whose moves were not seen, is measured again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FILES)

    def add(self, log: LiveRunLog, key: RunKey) -> None:
        """Keep a run, in place of an earlier one of the same key."""
        fresh: dict[str, list[Row]] = {
            "live_samples": list(measures.samples(log, key.run)),
            "live_moves": list(measures.moves(log, key.run)),
            "live": list(measures.rows(log, key.run)),
        }
        self.put(key, fresh)


def load(folder: Path) -> dict[str, list[Row]]:
    """The rows of whole runs, by file; none where there is no file."""
    return runs.load(folder, FILES)


def missing(plan: LivePlan, kept: LiveRuns) -> list[RunKey]:
    """The plan's runs that are not kept yet."""
    return [key for key in plan.order() if key not in kept.done]


def minutes(keys: Sequence[RunKey], times: LiveTimes) -> float:
    """About how long these runs take."""
    seconds = _START_SECONDS if keys else 0.0
    for key in keys:
        seconds += _PLACE_SECONDS + _MOVES * _MOVE_SECONDS + times.settle + 2 * times.phase
        seconds += 2 * times.warm + _LOADS_SECONDS if SCENARIOS[key.scenario].uneven else 0.0
    return seconds / 60


def measure(plan: LivePlan, kept: LiveRuns, say: Say) -> None:
    """Run what of the plan is not kept yet, and keep each run as soon as it is over."""
    keys = missing(plan, kept)
    for number, (key, log) in enumerate(live(keys, plan.times), 1):
        kept.add(log, key)
        say(f"{number} of {len(keys)}: {key.scenario}, run {key.run + 1}: {log.account.lost} lines lost")


def live(keys: Sequence[RunKey], times: LiveTimes) -> Iterator[tuple[RunKey, LiveRunLog]]:
    """Do these runs, on a bed of their own."""
    from sluice_lab.placement.live.bed import Bed

    if not keys:
        return
    with tempfile.TemporaryDirectory(prefix="sluice-lab-") as home, Bed(Path(home)) as bed:
        laboratory = LiveLaboratory(bed)
        for key in keys:
            yield key, laboratory.run(SCENARIOS[key.scenario], times)
