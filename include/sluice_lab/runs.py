"""Runs of a live laboratory that are kept in a folder: which there are, and adding one.

A run is kept in several files. The last one is written last, and first where a run is deleted; rows of the
others count only if the run is there. So a run is never half kept, whenever the laboratory is killed.
Measuring again goes on with the runs that are missing, and repeats those that did not end well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sluice_lab.saved_rows import keep, kept
from sluice_lab.trials import Row


class RunKey(NamedTuple):
    """A run: of a scenario, under a contender, with a number from 0."""

    scenario: str
    contender: str
    run: int

    @classmethod
    def of(cls, row: Row) -> RunKey:
        return cls(str(row["scenario"]), str(row["strategy"]), int(row["run"]))


class KeptRuns:
    """The kept runs of a folder. files: in the order in which they are written.

    done: the runs that need not be repeated: each row of their last file is `settled`.
    """

    def __init__(self, folder: Path, files: Sequence[str]) -> None:
        self._folder, self._files = folder, tuple(files)
        self._rows = load(folder, files)
        self.done = _done(self._rows[self._files[-1]])

    def rows(self, name: str) -> list[Row]:
        """The rows of one of the files."""
        return self._rows[name]

    def put(self, key: RunKey, fresh: Mapping[str, Sequence[Row]]) -> None:
        """Keep a run's rows, by file, in place of those of an earlier one with this key."""
        self._delete(lambda row: RunKey.of(row) == key)
        for name in self._files:
            self._rows[name] = [*self._rows[name], *fresh[name]]
        self._write(self._files)

    def forget(self, scenarios: Collection[str]) -> None:
        """Delete the runs of these scenarios."""
        self._delete(lambda row: row["scenario"] in scenarios)

    def _delete(self, which: Callable[[Row], bool]) -> None:
        if not any(map(which, self._rows[self._files[-1]])):
            return
        for name in self._files:
            self._rows[name] = [row for row in self._rows[name] if not which(row)]
        self._write(reversed(self._files))

    def _write(self, names: Iterable[str]) -> None:
        self.done = _done(self._rows[self._files[-1]])
        for name in names:
            keep(name, self._rows[name], self._folder)


def load(folder: Path, files: Sequence[str]) -> dict[str, list[Row]]:
    """The rows of whole runs, by file; none where there is no file."""
    found = {name: kept(name, folder) if (folder / f"{name}.json").exists() else [] for name in files}
    whole = {RunKey.of(row) for row in found[files[-1]]}
    return {name: _of(rows, whole) for name, rows in found.items()}


def how_many(rows: Sequence[Row]) -> str:
    """How many runs each contender had, such as `3` or `3 to 4`; by scenario, where that differs."""
    runs: dict[str, dict[object, set[object]]] = {}
    for row in rows:
        runs.setdefault(str(row["scenario"]), {}).setdefault(row["strategy"], set()).add(row["run"])
    counts: dict[tuple[int, int], list[str]] = {}
    for name, contenders in runs.items():
        numbers = [len(found) for found in contenders.values()]
        counts.setdefault((min(numbers), max(numbers)), []).append(name)
    said = {
        count: str(count[0]) if count[0] == count[1] else f"{count[0]} to {count[1]}"
        for count in sorted(counts)
    }
    if len(said) == 1:
        return next(iter(said.values()))
    return ", ".join(f"{text} ({', '.join(counts[count])})" for count, text in said.items())


def _done(last: Sequence[Row]) -> set[RunKey]:
    broken = {RunKey.of(row) for row in last if not row.get("settled")}
    return {RunKey.of(row) for row in last} - broken


def _of(rows: Sequence[Row], whole: Collection[RunKey]) -> list[Row]:
    return [row for row in rows if RunKey.of(row) in whole]
