"""Paper 003's figures in its own form, and what it says of them beside what was found here.

Its figure 8 has the change of C1's and C2's rate from one sample to the next, its figure 9 their CPU use. The
numbers of its tables 1 and 2 are pictures in the copy that this project has, so what can be compared is the
course over time and what the paper's text says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import mean

from sluice.lab.medians import Median, of
from sluice.lab.tables import Cell, Table, selected, shown
from sluice.lab.transmission.rivals import ALL
from sluice.lab.trials import Row

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


def changes(run: _Run) -> list[tuple[float, float]]:
    """Each sample's time, and how much more C1 and C2 consumed than in the one before; the start left out."""
    sums = [(float(row["at"]), float(row["C1"]) + float(row["C2"])) for row in run][1:]
    return [(at, after - before) for (_, before), (at, after) in pairwise(sums)]


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


def greatest(samples: Sequence[Row]) -> Table:
    """The greatest rise and the greatest fall of a run, by contender."""
    cells: list[list[Cell]] = []
    for name in ALL:
        if list(runs(samples, name)):
            cells.append([name, str(_of(samples, name, _rise)), str(_of(samples, name, _fall))])
    return Table(["assignor", "greatest rise, MB/s", "greatest fall, MB/s"], cells)


def claims(samples: Sequence[Row], gone: float, back: float) -> Table:
    """What the paper says of its three assignors, and the same figure here; "yes" and "no" compare medians.

    gone, back: when C0 left and came back, in seconds of the run.
    """
    rows: list[list[Cell]] = []

    def add(text: str, figure: Callable[[_Run], float], holds: Callable[[float, float, float], bool]) -> None:
        found = [_of(samples, name, figure).middle for name in THREE]
        rows.append([text, *map(shown, found), "yes" if holds(*found) else "no"])

    measured = all(list(runs(samples, name)) for name in THREE)
    if measured:
        add("C0 leaves: sticky's rate rises least (MB/s)", _rise, _sticky_least)
        add("C0 comes back: sticky's rate falls least (MB/s)", lambda run: -_fall(run), _sticky_least)
    if measured and all(cpus(run) for name in THREE for run in runs(samples, name)):
        add("sticky uses most CPU (processors, mean)", _mean_cpu, lambda a, b, sticky: sticky > max(a, b))
        add("C0 leaves: sticky's CPU peaks lowest (processors)", _peak(gone, back), _sticky_least)
        add("C0 leaves: sticky's CPU peaks last (s after it)", _peak_at(gone, back), _sticky_last)
    return Table(["the paper says", *THREE, "here"], rows)


def _of(samples: Sequence[Row], name: str, figure: Callable[[_Run], float]) -> Median:
    return of([figure(run) for run in runs(samples, name)])


def _rise(run: _Run) -> float:
    return max(value for _, value in changes(run))


def _fall(run: _Run) -> float:
    return min(value for _, value in changes(run))


def _mean_cpu(run: _Run) -> float:
    return mean(value for _, value in cpus(run))


def _peak(begin: float, end: float) -> Callable[[_Run], float]:
    return lambda run: max(value for at, value in cpus(run) if begin <= at < end)


def _peak_at(begin: float, end: float) -> Callable[[_Run], float]:
    def at(run: _Run) -> float:
        within = [each for each in cpus(run) if begin <= each[0] < end]
        return max(within, key=lambda each: each[1])[0] - begin

    return at


def _sticky_least(others: float, other: float, sticky: float) -> bool:
    return sticky < min(others, other)


def _sticky_last(others: float, other: float, sticky: float) -> bool:
    return sticky > max(others, other)
