"""The runs that are kept in docs/transmission: which there are, and adding one.

A run is kept in three files. `live.json` is written last, and rows of the others count only if the run is
there; so a run that was killed is not half kept. Measuring again goes on with those that are missing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from sluice.lab.kept import keep, kept
from sluice.lab.transmission import measures
from sluice.lab.transmission.run import Log
from sluice.lab.transmission.scenarios import PAPER
from sluice.lab.trials import Row

#: In the order in which they are written.
FILES = ("samples", "stood", "live")
SAMPLE_SECONDS = 2.0
#: Scenarios of which the standstill of each partition is kept, for its distribution.
STOOD = ("paper", "both")


class Key(NamedTuple):
    """A run: of a scenario, under a contender, with a number from 0."""

    scenario: str
    contender: str
    run: int

    @classmethod
    def of(cls, row: Row) -> Key:
        return cls(str(row["scenario"]), str(row["strategy"]), int(row["run"]))


class Runs:
    """The kept runs of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows = load(folder)
        self.done = {Key.of(row) for row in self._rows["live"]}

    def add(self, log: Log, number: int) -> None:
        """Keep a run, in place of an earlier one of the same scenario, contender and number."""
        paper = log.scenario.name == PAPER.name
        fresh = {
            "samples": measures.samples(log, number, SAMPLE_SECONDS) if paper else (),
            "stood": measures.stood(log, number) if log.scenario.name in STOOD else (),
            "live": measures.rows(log, number),
        }
        key = Key(log.scenario.name, log.contender, number)
        for name in FILES:
            others = [row for row in self._rows[name] if Key.of(row) != key]
            self._rows[name] = [*others, *fresh[name]]
        self.done.add(key)
        self._write()

    def forget(self, scenarios: Collection[str]) -> None:
        """Delete the runs of these scenarios."""
        for name in FILES:
            self._rows[name] = [row for row in self._rows[name] if row["scenario"] not in scenarios]
        self.done = {Key.of(row) for row in self._rows["live"]}
        self._write()

    def _write(self) -> None:
        for name in FILES:
            keep(name, self._rows[name], self._folder)


def load(folder: Path) -> dict[str, list[Row]]:
    """The rows of whole runs, by file; none where there is no file."""
    found = {name: kept(name, folder) if (folder / f"{name}.json").exists() else [] for name in FILES}
    whole = {Key.of(row) for row in found["live"]}
    return {name: _of(rows, whole) for name, rows in found.items()}


def _of(rows: Sequence[Row], whole: Collection[Key]) -> list[Row]:
    return [row for row in rows if Key.of(row) in whole]
