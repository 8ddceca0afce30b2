"""What the log of a run says: throughput, latency, slots, moves, pauses, lost lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice_lab.placement.live.arrivals import NEVER
from sluice_lab.placement.live.run import LiveRunLog
from sluice_lab.placement.live.scenarios import front_end
from sluice_lab.trials import Row

#: A line of a front-end that is about to stand still comes within this time before its unit moves.
_AROUND_MS = 2_000
Column = NDArray[np.int64]


class LivePhase(NamedTuple):
    """A phase of a run, in seconds since the epoch."""

    name: str
    begin: float
    end: float


def phases(log: LiveRunLog) -> list[LivePhase]:
    return [
        LivePhase("before", log.began, log.joined),
        LivePhase("during", log.joined, log.settled),
        LivePhase("after", log.settled, log.ended),
    ]


def rows(log: LiveRunLog, number: int) -> Iterator[Row]:
    """A row for each phase. number: of the run.

    rate, written: lines a second that came and that were written; p50, p99, worst: milliseconds from a line
    to its place in Kafka, of the lines written in the phase. Of the whole run are lines, lost, twice, strange
    and by_slots. settled: 1 if the run is whole. uneven: of the hosts' measured processor time.
    """
    written, first = _all(log)
    pauses = [move.taken.pause for move in log.moves]
    whole = not log.account.lost and not any(pause is None for pause in pauses)
    for phase in phases(log):
        mine = _within(written, phase)
        late = (first - written)[mine & (first != NEVER)]
        row: Row = {
            **_labels(log, number),
            "step": phase.name,
            "seconds": phase.end - phase.begin,
            "rate": _within(first, phase).sum() / (phase.end - phase.begin),
            "written": mine.sum() / (phase.end - phase.begin),
            **{name: _quantile(late, part) for name, part in (("p50", 0.5), ("p99", 0.99), ("worst", 1.0))},
            "lines": len(written),
            "lost": log.account.lost,
            "twice": log.account.twice,
            "strange": log.account.strange,
            "moved": len(log.moves),
            "by_slots": log.by_slots,
            "settled": int(whole),
            "busy": log.busy,
        }
        if phase.name != "during":
            at = 0 if phase.name == "before" else -1
            row |= {"slots": "/".join(map(str, log.slots[at])), "uneven": log.unevenness[at]}
            if log.scenario.uneven:
                row |= log.loads[at]
        yield row


def moves(log: LiveRunLog, number: int) -> Iterator[Row]:
    """A row for each move. at: seconds since the hosts joined; seconds: until the agent was ready.

    pause: between the last block at the old host and the first at the new one, from out_at on. stood: the
    longest time in which no line of its front-end came into Kafka.
    """
    for move in log.moves:
        row: Row = {
            **_labels(log, number),
            "unit": move.unit,
            "source": move.source,
            "target": move.target,
            "at": move.began - log.joined,
            "seconds": move.ended - move.began,
            "stood": _stood(log, move.unit, move.began, move.taken.first or move.ended),
        }
        if move.taken.last is not None and move.taken.pause is not None:
            row |= {"out_at": move.taken.last - log.joined, "pause": move.taken.pause}
        yield row


def samples(log: LiveRunLog, number: int) -> Iterator[Row]:
    """A row for each second. at: since the hosts joined; the rest as in `rows`."""
    written, first = _all(log)
    known = first != NEVER
    for at in range(int(log.began - log.joined), int(log.ended - log.joined)):
        second = LivePhase("", log.joined + at, log.joined + at + 1)
        late = (first - written)[_within(written, second) & known]
        yield {
            **_labels(log, number),
            "at": at,
            "rate": int(_within(first, second).sum()),
            "written": int(_within(written, second).sum()),
            "p50": _quantile(late, 0.5),
            "p99": _quantile(late, 0.99),
        }


def _labels(log: LiveRunLog, number: int) -> Mapping[str, str | int]:
    return {"scenario": log.scenario.name, "strategy": log.scenario.start, "run": number}


def _all(log: LiveRunLog) -> tuple[Column, Column]:
    """When each line of all front-ends was written, and when it came first, in milliseconds."""
    names = list(log.written)
    return (
        np.concatenate([log.written[name] for name in names]),
        np.concatenate([log.account.files[name].first for name in names]),
    )


def _within(times: Column, phase: LivePhase) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (times >= phase.begin * 1e3) & (times < phase.end * 1e3)
    return found


def _quantile(values: Column, part: float) -> float:
    return float(np.quantile(values, part)) if len(values) else 0.0


def _stood(log: LiveRunLog, unit: str, begin: float, end: float) -> float:
    times = np.sort(log.account.files[front_end(unit)].first)
    around = times[(times >= begin * 1e3 - _AROUND_MS) & (times <= end * 1e3 + _AROUND_MS)]
    return float(np.diff(around).max()) / 1e3 if len(around) > 1 else end - begin
