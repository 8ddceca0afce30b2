"""The runs that are kept in docs/transmission; one with a phase without a stable end is measured again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sluice_lab import runs
from sluice_lab.runs import KeptRuns, RunKey
from sluice_lab.transmission import measures
from sluice_lab.transmission.run import GroupRunLog
from sluice_lab.transmission.scenarios import ARRIVES, PAPER
from sluice_lab.trials import Row

#: In the order in which they are written.
FILES = ("samples", "stood", "live")
SAMPLE_SECONDS = 2.0
#: Rates that differ by less, in megabytes a second, are one: kept figures are rounded.
_SAME = 1e-3


class GroupRuns(KeptRuns):
    """The kept runs of a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FILES)

    def add(self, log: GroupRunLog, number: int) -> None:
        """Keep a run, in place of an earlier one of the same scenario, contender and number."""
        paper = log.scenario.name == PAPER.name
        fresh: dict[str, list[Row]] = {
            "samples": list(measures.samples(log, number, SAMPLE_SECONDS)) if paper else [],
            "stood": list(measures.stood(log, number)),
            "live": list(measures.rows(log, number)),
        }
        self.put(RunKey(log.scenario.name, log.contender, number), fresh)

    def other_rates(self, scenarios: Collection[str], arrives: float) -> list[str]:
        """Those of the scenarios that have kept runs with another rate, in bytes a second."""
        rows = [row for row in self.rows("live") if row["scenario"] in scenarios]
        others = (str(row["scenario"]) for row in rows if abs(rate(row) - arrives / 1e6) > _SAME)
        return list(dict.fromkeys(others))


def rate(row: Row) -> float:
    """Megabytes a second of 13 ordinary partitions; the default for runs that did not keep it."""
    return float(row.get("arrives", ARRIVES / 1e6))


def load(folder: Path) -> dict[str, list[Row]]:
    """The rows of whole runs, by file; none where there is no file."""
    return runs.load(folder, FILES)
