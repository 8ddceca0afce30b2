"""Auto: which of combine, key and planned is cheapest for a task, judged by what its batches measured.

A batch has n tuples in g series (a key in a period), from sources of which the largest has the part u of all
tuples. A tuple costs c seconds where it is aggregated, and a partial aggregate has b bytes. W workers run
side by side, and the most frequent key has the part p of all tuples. The model estimates how long the batch
takes, in seconds:

    combine   n c max(u, 1/W)  +  r m
    key       F  +  n s max(u, 1/W)  +  n (t + c) (p + (1 - p)/W)  +  g m
    planned   F + D  +  n s max(u, 1/W)  +  n (t + c) / W * 1.03  +  1.05 g m        with m = R + b B

`combine` aggregates at the sources and sends r partial aggregates, up to one a series and source. The others
send tuples and g partial aggregates (planned: 1.05 g, and 3 % of imbalance, as its bars allow), which costs a
second stage F and, for each tuple, s to send it and t to take it. (One stage serves all tasks of a job that
send tuples; each is judged as if it were the only one.) One place merges partial aggregates: m each. D is the
making of a plan, which is also why planned must be better than key, not just as good.

So combine wins where aggregating is cheap and series repeat within a source; key where partial aggregates are
large or nearly one a tuple (combining finds nothing to combine) and no key is hot; planned where tuples are
expensive and a key is hot.

The strategy in use stays until another was cheaper by `margin` in each of `patience` batches in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

COMBINE, KEY, PLANNED = "combine", "key", "planned"

#: Of planned grouping: how much more than the mean the busiest worker gets, and replicas a key.
_UNEVEN, _REPLICAS = 1.03, 1.05
#: A batch of fewer tuples takes as long as its stages do, whatever the strategy: it decides nothing.
LEAST_TUPLES = 1_000


@dataclass(frozen=True)
class Costs:
    """What the model takes for granted, in seconds; the defaults are those of Spark on one machine.

    stage: F, a second stage of a job. plan: D. send, take: s and t, a tuple: hashing, routing and writing it
    at the source, reading it and finding its series at the worker. row, byte: R and B, of a partial aggregate
    from where it is made until it is merged. B is what combine loses on the points of `tests.bench grouping`
    with 4 KB a key, over the bytes that it merges there.
    """

    stage: float = 0.1
    plan: float = 0.02
    send: float = 2e-7
    take: float = 3e-7
    row: float = 2e-6
    byte: float = 8e-9


@dataclass(frozen=True)
class Figures:
    """What a task's batch measured.

    tuples: n. groups: g. rows: r, measured where it was combined, else `rows_if_combined`. cost: c, seconds a
    tuple. state: b, bytes. top: p. widest: u. workers: W.
    """

    tuples: int
    groups: int
    rows: float
    cost: float
    state: float
    top: float
    widest: float
    workers: int

    @property
    def distinct(self) -> float:
        """Series a tuple: 1 if each tuple has a series of its own."""
        return self.groups / max(1, self.tuples)


def rows_if_combined(counts: npt.NDArray[np.int64], sources: int) -> float:
    """Partial aggregates that sources would send of keys with these counts, if tuples fall on any of them.

    A key with m tuples is expected at S (1 - (1 - 1/S)^m) of S sources.
    """
    return float((sources * (1 - (1 - 1 / sources) ** counts)).sum()) if sources > 1 else float(len(counts))


def estimate(figures: Figures, costs: Costs) -> dict[str, float]:
    """Seconds that a batch takes by each strategy."""
    n, even = figures.tuples, 1 / figures.workers
    at_sources = n * max(figures.widest, even)
    merge = costs.row + figures.state * costs.byte
    at_worker = n * (costs.take + figures.cost)
    sending = costs.stage + at_sources * costs.send
    hottest = figures.top + (1 - figures.top) * even
    return {
        COMBINE: at_sources * figures.cost + figures.rows * merge,
        KEY: sending + at_worker * hottest + figures.groups * merge,
        PLANNED: sending + costs.plan + at_worker * even * _UNEVEN + figures.groups * _REPLICAS * merge,
    }


@dataclass(frozen=True)
class Decision:
    """A strategy, and why.

    estimates: seconds by strategy, of the last batch that was large enough; figures: what it measured.
    rival: a strategy that was better by the margin in the last `streak` batches.
    """

    strategy: str
    reason: str
    estimates: Mapping[str, float] = field(default_factory=dict)
    figures: Figures | None = None
    rival: str | None = None
    streak: int = 0

    def document(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


@dataclass
class Auto:
    """A task's decisions from batch to batch.

    margin: by which part of its time another strategy must be better, 0 to 1. patience: in how many batches
    in a row, at least 1.
    """

    costs: Costs = Costs()
    margin: float = 0.2
    patience: int = 3
    decision: Decision = Decision(COMBINE, "nothing has been measured yet")

    def observe(self, figures: Figures) -> Decision:
        """Take note of a batch; what the next one is to be grouped by."""
        if figures.tuples >= LEAST_TUPLES:
            self.decision = self._decided(figures, estimate(figures, self.costs))
        return self.decision

    def _decided(self, figures: Figures, estimates: Mapping[str, float]) -> Decision:
        before = replace(self.decision, estimates=estimates, figures=figures)
        current = before.strategy
        best = min(estimates, key=lambda name: (estimates[name], name))
        if best == current:
            return replace(before, rival=None, streak=0, reason=f"{current} is the cheapest")
        gain = 1 - estimates[best] / estimates[current]
        if gain < self.margin:
            reason = f"{best} is better by {gain:.0%}, less than {self.margin:.0%}"
            return replace(before, rival=None, streak=0, reason=reason)
        streak = before.streak + 1 if before.rival == best else 1
        if streak < self.patience:
            reason = f"{best} is better by {gain:.0%}: {streak} of {self.patience} batches"
            return replace(before, rival=best, streak=streak, reason=reason)
        reason = f"better than {current} by {gain:.0%} in {streak} batches"
        return replace(before, strategy=best, rival=None, streak=0, reason=reason)


def top_share(counts: npt.NDArray[np.int64]) -> float:
    """The part that the most frequent key has of all tuples."""
    return float(counts.max() / counts.sum()) if np.any(counts) else 0.0
