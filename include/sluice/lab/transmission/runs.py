"""The runs that are kept in docs/transmission: which there are, and adding one.

A run is kept in three files. `live.json` is written last, and first where a run is deleted; rows of the
others count only if the run is there. So a run is never half kept, whenever the laboratory is killed.
Measuring again goes on with the runs that are missing, and repeats those of which a phase did not end with a
stable group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
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
    """The kept runs of a folder. done: those that need not be repeated."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows = load(folder)
        self.done = _done(self._rows["live"])

    def add(self, log: Log, number: int) -> None:
        """Keep a run, in place of an earlier one of the same scenario, contender and number."""
        paper = log.scenario.name == PAPER.name
        fresh = {
            "samples": list(measures.samples(log, number, SAMPLE_SECONDS)) if paper else [],
            "stood": list(measures.stood(log, number)) if log.scenario.name in STOOD else [],
            "live": list(measures.rows(log, number)),
        }
        key = Key(log.scenario.name, log.contender, number)
        self._delete(lambda row: Key.of(row) == key)
        for name in FILES:
            self._rows[name] = [*self._rows[name], *fresh[name]]
        self._write(FILES)

    def forget(self, scenarios: Collection[str]) -> None:
        """Delete the runs of these scenarios."""
        self._delete(lambda row: row["scenario"] in scenarios)

    def _delete(self, which: Callable[[Row], bool]) -> None:
        if not any(map(which, self._rows["live"])):
            return
        for name in FILES:
            self._rows[name] = [row for row in self._rows[name] if not which(row)]
        self._write(reversed(FILES))

    def _write(self, names: Iterable[str]) -> None:
        self.done = _done(self._rows["live"])
        for name in names:
            keep(name, self._rows[name], self._folder)


def load(folder: Path) -> dict[str, list[Row]]:
    """The rows of whole runs, by file; none where there is no file."""
    found = {name: kept(name, folder) if (folder / f"{name}.json").exists() else [] for name in FILES}
    whole = {Key.of(row) for row in found["live"]}
    return {name: _of(rows, whole) for name, rows in found.items()}


def _done(live: Sequence[Row]) -> set[Key]:
    """The runs of which every phase ended with a stable group."""
    broken = {Key.of(row) for row in live if not row.get("settled")}
    return {Key.of(row) for row in live} - broken


def _of(rows: Sequence[Row], whole: Collection[Key]) -> list[Row]:
    return [row for row in rows if Key.of(row) in whole]
