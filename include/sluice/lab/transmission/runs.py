"""The runs that are kept in docs/transmission; one with a phase without a stable end is measured again."""

from __future__ import annotations

from pathlib import Path

from sluice.lab import runs
from sluice.lab.runs import Kept, Key
from sluice.lab.transmission import measures
from sluice.lab.transmission.run import Log
from sluice.lab.transmission.scenarios import PAPER
from sluice.lab.trials import Row

#: In the order in which they are written.
FILES = ("samples", "stood", "live")
SAMPLE_SECONDS = 2.0
#: Scenarios of which the standstill of each partition is kept, for its distribution.
STOOD = ("paper", "both")


class Runs(Kept):
    """The kept runs of a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FILES)

    def add(self, log: Log, number: int) -> None:
        """Keep a run, in place of an earlier one of the same scenario, contender and number."""
        paper = log.scenario.name == PAPER.name
        fresh: dict[str, list[Row]] = {
            "samples": list(measures.samples(log, number, SAMPLE_SECONDS)) if paper else [],
            "stood": list(measures.stood(log, number)) if log.scenario.name in STOOD else [],
            "live": list(measures.rows(log, number)),
        }
        self.put(Key(log.scenario.name, log.contender, number), fresh)


def load(folder: Path) -> dict[str, list[Row]]:
    """The rows of whole runs, by file; none where there is no file."""
    return runs.load(folder, FILES)
