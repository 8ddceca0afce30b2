"""Auto: the cheapest of combine, key and planned for a task, by what its batches measured.

A batch has n tuples in g series (a series is a key in a period). The largest source has the share u of all
tuples. Aggregating a tuple costs c seconds, and a partial aggregate has b bytes. W workers run in parallel,
and the most frequent key has the share p of all tuples. The model estimates how long the batch takes, in
seconds:

    combine   n c max(u, 1/W)  +  r m
    key       F  +  n s max(u, 1/W)  +  n (t + c) (p + (1 - p)/W)  +  g m
    planned   F + D  +  n s max(u, 1/W)  +  n (t + c) / W * 1.03  +  1.05 g m        with m = R + b B

`combine` aggregates at the sources and sends r partial aggregates, at most one for each series and source.
The others send tuples and then g partial aggregates (planned: 1.05 g, with 3 % of imbalance, as its bars
allow). This costs a second stage F and, for each tuple, s to send it and t to take it. (One stage serves all
tasks of a job that send tuples; each task is judged as if it were the only one.) One place merges the partial
aggregates, at a cost of m each. D is the cost of making a plan. Because of D, planned must be better than
key, not just as good.

So combine wins where aggregating is cheap and series repeat within a source. Key wins where no key is hot and
partial aggregates are large or nearly as many as the tuples (there is nothing to combine). Planned wins where
tuples are expensive and a key is hot.

The strategy in use stays until one other was the cheapest, by at least `margin`, in `patience` batches in a
row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from sluice.runtime.arrays import Ints

COMBINE, KEY, PLANNED = "combine", "key", "planned"

#: Of planned grouping: the busiest worker's load over the mean, and replicas per key.
_UNEVEN, _REPLICAS = 1.03, 1.05
#: A batch with fewer tuples takes as long as its stages do with any strategy, so it decides nothing.
LEAST_TUPLES = 1_000


@dataclass(frozen=True)
class Costs:
    """The constants of the model, in seconds; the defaults are those of Spark on one machine.

    stage: F, a second stage of a job. plan: D.
    send: s, to hash, route and write a tuple at the source. take: t, to read a tuple and find its series at
    the worker.
    row, byte: R and B, the cost of a partial aggregate, and of each of its bytes, from where it is made until
    it is merged. B is the time that combine loses on the points of the bench `grouping` with 4 KB a key,
    divided by the bytes that it merges there.
    """

    stage: float = 0.1
    plan: float = 0.02
    send: float = 2e-7
    take: float = 3e-7
    row: float = 2e-6
    byte: float = 8e-9


@dataclass(frozen=True)
class BatchFigures:
    """What a task's batch measured.

    tuples: n. groups: g. rows: r, measured if the batch was combined, else `rows_if_combined`. cost: c,
    seconds per tuple. state: b, bytes. top: p. widest: u. workers: W.
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
        """Series per tuple: 1 if each tuple has a series of its own."""
        return self.groups / max(1, self.tuples)


def rows_if_combined(counts: Ints, sources: int) -> float:
    """Partial aggregates that sources would send if each tuple came to one of them at random.

    counts: each key's tuples. A key with m tuples is expected at S (1 - (1 - 1/S)^m) of S sources.
    """
    return float((sources * (1 - (1 - 1 / sources) ** counts)).sum()) if sources > 1 else float(len(counts))


def estimate(figures: BatchFigures, costs: Costs) -> dict[str, float]:
    """The seconds that a batch takes with each strategy."""
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
    """A strategy, and the reason for it.

    estimates: seconds by strategy, of the last batch that was large enough; figures: what it measured.
    rival: a strategy that was better by the margin in the last `streak` batches.
    """

    strategy: str
    reason: str
    estimates: Mapping[str, float] = field(default_factory=dict)
    figures: BatchFigures | None = None
    rival: str | None = None
    streak: int = 0

    def document(self) -> dict[str, Any]:
        """The decision as JSON takes it."""
        return asdict(self)


@dataclass
class Auto:
    """A task's decisions from batch to batch.

    margin: the part of the time that another strategy must save, 0 to 1. patience: in how many batches in a
    row, at least 1.
    """

    costs: Costs = Costs()
    margin: float = 0.2
    patience: int = 3
    decision: Decision = Decision(COMBINE, "nothing has been measured yet")

    def observe(self, figures: BatchFigures) -> Decision:
        """Take note of a batch and decide what the next one is grouped by."""
        if figures.tuples >= LEAST_TUPLES:
            self.decision = self._decided(figures, estimate(figures, self.costs))
        return self.decision

    def _decided(self, figures: BatchFigures, estimates: Mapping[str, float]) -> Decision:
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


def top_share(counts: Ints) -> float:
    """The most frequent key's share of all tuples."""
    return float(counts.max() / counts.sum()) if np.any(counts) else 0.0
