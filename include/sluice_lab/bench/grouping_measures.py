"""What a batch in Spark cost: figures from the rows that workers sent to the driver."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.grouping.auto import BatchFigures, rows_if_combined, top_share
from sluice.runtime.arrays import Floats, Ints
from sluice_lab.bench.grouping_states import States


@dataclass(frozen=True)
class SlotLoads:
    """The load of each worker (or source, if sources combine) that had any tuples.

    Columns are those of `grouping_stages.SlotLoad`, and held: bytes of states. All have the shape (workers
    with tuples,).
    """

    worker: Ints
    tuples: Ints
    received: Ints
    begun: Floats
    ended: Floats
    busy: Floats
    held: Floats

    @classmethod
    def of(cls, rows: pa.Table) -> SlotLoads:
        """Read rows of `grouping_stages.FOUND`: a worker's first has its load, all have states."""
        at = rows.column("worker").to_numpy()
        held = np.bincount(at, pc.binary_length(rows.column("states")).to_numpy())
        first = rows.drop_columns("states").filter(pc.greater(rows.column("tuples"), 0))
        columns = {name: first.column(name).to_numpy() for name in first.column_names}
        return cls(**columns, held=held[columns["worker"]])

    @property
    def span(self) -> float:
        """Seconds from the beginning of the first worker to the end of the last one."""
        return float(self.ended.max() - self.begun.min())

    def by_worker(self, times: Floats) -> Floats:
        """Tuples times t_i for all workers; shape of `times`."""
        return np.asarray(np.bincount(self.worker, self.tuples, len(times)) * times)

    def latencies(self) -> Floats:
        """The Unix time when each tuple was done, if a worker took equally long for all its tuples.

        Shape (tuples,).
        """
        nth = np.concatenate([np.arange(1, count + 1) / count for count in self.tuples])
        begun: Floats = np.repeat(self.begun, self.tuples)
        took: Floats = np.repeat(self.ended - self.begun, self.tuples)
        return np.asarray(begun + took * nth)

    def figures(self, states: States, *, sources: int, workers: int, combined: bool) -> BatchFigures:
        """The figures by which `auto` decides.

        states: of the batch, one per key. combined: the loads are those of sources.
        """
        sent = self.held.sum() / states.itemsize
        tuples = int(self.tuples.sum())
        return BatchFigures(
            tuples=tuples,
            groups=len(states),
            rows=sent if combined else rows_if_combined(states["count"], sources),
            cost=float(self.busy.sum()) / tuples,
            state=states.itemsize,
            top=top_share(states["count"]),
            widest=1 / sources,
            workers=workers,
        )


@dataclass(frozen=True)
class Ran:
    """One batch of one contender.

    seconds: of the whole batch, until its states are merged and the next batch may begin. boundary, merging:
    the part of them in which the strategy looked back, and in which the driver merged. span: see
    `SlotLoads`. uneven: max / mean - 1 of the workers' loads. sent: bytes between the stages. partials:
    rows that were merged. state: bytes that all workers held; most: bytes of the worker that held most.
    source: bytes of the largest router. p50, p99: seconds from the batch's beginning until a tuple was
    aggregated. figures: for `auto`.
    """

    seconds: float
    boundary: float
    merging: float
    span: float
    uneven: float
    sent: int
    partials: int
    state: int
    most: int
    source: int
    p50: float
    p99: float
    figures: BatchFigures


Measured = Mapping[str, Sequence[Ran]]


def seconds(measured: Measured) -> dict[str, list[float]]:
    """Each contender's seconds, as `timing.ratio` and `timing.median` take them."""
    return {name: [ran.seconds for ran in runs] for name, runs in measured.items()}


def middle(runs: Sequence[Ran], field: str) -> float:
    """The median of a figure of these runs."""
    return float(statistics.median(getattr(ran, field) for ran in runs))
