"""Paper 003's figures in its own form, and what it says of them beside what was found here.

Its figure 8 has the change of C1's and C2's rate from one sample to the next, its figure 9 their CPU use. The
numbers of its tables 1 and 2 are pictures in the copy that this project has, so what can be compared is the
course over time and what the paper's text says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import mean
from typing import NamedTuple

from sluice_lab.medians import Median, of
from sluice_lab.tables import Cell, TextTable, selected, shown
from sluice_lab.transmission.rivals import ALL
from sluice_lab.trials import Row

#: The contenders of the paper.
THREE = ("range", "roundrobin", "sticky")
_CPU = ("C1 cpu", "C2 cpu")
_Run = list[Row]


def runs(samples: Sequence[Row], contender: str) -> Iterator[_Run]:
    """The samples of each run of a contender, in order of time."""
    found: dict[int, _Run] = {}
    for row in selected(samples, strategy=contender):
        found.setdefault(int(row["run"]), []).append(row)
    for run in found.values():
        yield sorted(run, key=lambda row: float(row["at"]))


def changes(run: _Run, begin: float, end: float = float("inf")) -> list[tuple[float, float]]:
    """The time of each sample of that time, and how much more C1 and C2 consumed than in the one before."""
    sums = [(float(row["at"]), float(row["C1"]) + float(row["C2"])) for row in run]
    return [(at, after - before) for (_, before), (at, after) in pairwise(sums) if begin <= at < end]


def cpus(run: _Run) -> list[tuple[float, float]]:
    """Each sample's time and C1's and C2's CPU use; none where only the sum of all members was kept."""
    return [
        (float(row["at"]), sum(float(row[name]) for name in _CPU))
        for row in run
        if all(name in row for name in _CPU)
    ]


def over_time(
    samples: Sequence[Row], figure: Callable[[_Run], list[tuple[float, float]]], name: str
) -> list[Row]:
    """The median of a figure over the runs, by contender and time; the figure is called `name`."""
    found: list[Row] = []
    for contender in ALL:
        at_time: dict[int, list[float]] = {}
        for run in runs(samples, contender):
            for at, value in figure(run):
                at_time.setdefault(round(at), []).append(value)
        found += [
            {"strategy": contender, "at": at, name: of(values).middle} for at, values in at_time.items()
        ]
    return found


class Absence(NamedTuple):
    """When C0 left and came back, in seconds of the run."""

    gone: float
    back: float

    def rise(self, run: _Run) -> float:
        """The greatest rise of the rate while C0 is away. What the group's start brings is before that."""
        return max(value for _, value in changes(run, self.gone, self.back))

    def fall(self, run: _Run) -> float:
        """The greatest fall of the rate after C0 came back."""
        return min(value for _, value in changes(run, self.back))

    def peak(self, run: _Run) -> float:
        """The greatest CPU use while C0 is away."""
        return max(value for _, value in self._away(run))

    def peak_at(self, run: _Run) -> float:
        """Seconds from C0's departure to that."""
        return max(self._away(run), key=lambda each: each[1])[0] - self.gone

    def _away(self, run: _Run) -> list[tuple[float, float]]:
        return [each for each in cpus(run) if self.gone <= each[0] < self.back]


def greatest(samples: Sequence[Row], absence: Absence) -> TextTable:
    """The greatest rise while C0 is away, and the greatest fall after it came back, by contender."""
    cells: list[list[Cell]] = []
    for name in ALL:
        if list(runs(samples, name)):
            figures = (absence.rise, absence.fall)
            cells.append([name, *(str(_of(samples, name, figure)) for figure in figures)])
    return TextTable(["assignor", "greatest rise, MB/s", "greatest fall, MB/s"], cells)


def claims(samples: Sequence[Row], absence: Absence) -> TextTable:
    """What the paper says of its three assignors, and the same figure here; yes and no compare medians."""
    rows: list[list[Cell]] = []

    def add(text: str, figure: Callable[[_Run], float], holds: Callable[[float, float, float], bool]) -> None:
        found = [_of(samples, name, figure).middle for name in THREE]
        rows.append([text, *map(shown, found), "yes" if holds(*found) else "no"])

    measured = all(list(runs(samples, name)) for name in THREE)
    if measured:
        add("C0 leaves: sticky's rate rises least (MB/s)", absence.rise, _sticky_least)
        add("C0 comes back: sticky's rate falls least (MB/s)", lambda run: -absence.fall(run), _sticky_least)
    if measured and all(cpus(run) for name in THREE for run in runs(samples, name)):
        add("sticky uses most CPU (processors, mean)", _mean_cpu, lambda a, b, sticky: sticky > max(a, b))
        add("C0 leaves: sticky's CPU peaks lowest (processors)", absence.peak, _sticky_least)
        add("C0 leaves: sticky's CPU peaks last (s after it)", absence.peak_at, _sticky_last)
    return TextTable(["the paper says", *THREE, "here"], rows)


def _of(samples: Sequence[Row], name: str, figure: Callable[[_Run], float]) -> Median:
    return of([figure(run) for run in runs(samples, name)])


def _mean_cpu(run: _Run) -> float:
    return mean(value for _, value in cpus(run))


def _sticky_least(others: float, other: float, sticky: float) -> bool:
    return sticky < min(others, other)


def _sticky_last(others: float, other: float, sticky: float) -> bool:
    return sticky > max(others, other)
