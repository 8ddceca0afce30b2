"""A team's metric as the engine sees it; what it computes, processes of its own compute (`team_calls`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.metrics.base import Accumulator, Batch, Columns, Metric, Results
from sluice.metrics.team_calls import PROCESSES, TeamFile
from sluice.metrics.team_code import MetricDescription, TeamCodeFailed
from sluice.runtime.arrays import Ints


class UserMetricFailed(RuntimeError):
    """A team's own metric raised an error, returned what it must not, or did not end."""


class UserAccumulator(Accumulator):
    """A team's metric as an accumulator of one binary column; null without any measure."""

    def __init__(self, metric: MetricDescription, file: TeamFile) -> None:
        self.name = f"user_{metric.name}"
        self.columns = {self.name: pa.binary()}
        self.metric, self._file = metric, file

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        text = self.metric.measure == "text"
        present = batch.of(batch.measured.present)
        if text:
            present = present & batch.of(batch.text.present)
        order, bounds = _sorted(batch.groups[present], batch.size)
        if text:
            codes = batch.of(batch.text.codes)[present][order]
            values = batch.text.distinct.take(pa.array(codes))
        else:
            values = pa.array(batch.of(batch.numbers.values)[present][order])
        return {self.name: self._asked("add", values, bounds)}

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        """A group with one state keeps it: the team's code is asked only where there are more."""
        given = columns[self.name]
        present = np.flatnonzero(given.is_valid().to_numpy(zero_copy_only=False))
        order, bounds = _sorted(groups[present], size)
        counts = np.diff(bounds)
        found = given.take(pa.array(_first(present[order], bounds), mask=counts == 0))
        if not (several := counts > 1).any():
            return {self.name: found}
        rows = present[order][np.repeat(several, counts)]
        own = np.append(0, np.cumsum(np.where(several, counts, 0)))
        merged = self._asked("merge", given.take(pa.array(rows)), own)
        return {self.name: pc.if_else(pa.array(several), merged, found)}

    def results(self, states: pa.Array) -> pa.Table:
        """The results (`team_code.RESULTS`) of states that are not null."""
        return self._ask("result", states)

    def _asked(self, do: str, values: pa.Array, bounds: Ints) -> pa.Array:
        """The state of each group, whose values lie between its bounds; null where it has none."""
        there = np.diff(bounds) > 0
        if not there.any():
            return pa.nulls(len(there), pa.binary())
        offsets = pa.array(np.append(bounds[:-1][there], bounds[-1]).astype(np.int64))
        found = self._ask(do, pa.LargeListArray.from_arrays(offsets, values)).column(0).combine_chunks()
        return found.take(pa.array(np.cumsum(there) - 1, mask=~there))

    def _ask(self, do: str, values: pa.Array) -> pa.Table:
        try:
            ask = {"do": do, "metric": self.metric.name}
            return PROCESSES.ask(self._file, ask, pa.table({"values": values}))[1]
        except TeamCodeFailed as error:
            raise UserMetricFailed(f"metric {self.metric.name!r} of {self._file.name} {error}") from error


class Adapter(Metric):
    """A team's metric as a `Metric` of the registry."""

    def __init__(self, metric: MetricDescription, file: TeamFile) -> None:
        self._accumulator = UserAccumulator(metric, file)
        self.name, self.tolerance, self._about = metric.name, metric.tolerance, metric.about
        self.measure = "number" if metric.measure == "number" else "any"
        self.accumulators = (self._accumulator,)

    @property
    def about(self) -> str:
        return self._about

    def results(self, columns: Columns) -> Results:
        """No value for a series without a measure, or if the metric returns None."""
        stored = columns[self._accumulator.name]
        there = stored.is_valid().to_numpy(zero_copy_only=False)
        values, integers = np.full(len(stored), np.nan), np.zeros(len(stored), np.int64)
        exact = np.zeros(len(stored), bool)
        if there.any():
            found = self._accumulator.results(stored.drop_null())
            value, integer = (found.column(name).combine_chunks() for name in ("value", "integer"))
            values[there] = value.to_numpy(zero_copy_only=False)
            exact[there] = integer.is_valid().to_numpy(zero_copy_only=False)
            integers[there] = integer.fill_null(0).to_numpy(zero_copy_only=False)
        return Results(values, integers, exact)


def _first(rows: Ints, bounds: Ints) -> Ints:
    """The first row of each group; any one for a group without rows."""
    return np.append(rows, 0)[bounds[:-1]]


def _sorted(groups: Ints, size: int) -> tuple[Ints, Ints]:
    """The rows in the order of their groups (stable), and where each group's begin (size + 1)."""
    counts = np.bincount(groups, minlength=size)
    return np.argsort(groups, kind="stable"), np.append(0, np.cumsum(counts))
