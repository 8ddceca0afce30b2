"""How many different measures there were: exact up to 1,024 a series, then by HyperLogLog."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.metrics.base import Accumulator, Batch, Columns, Metric, Results
from sluice.metrics.packed import Damaged, binary, buffers
from sluice.runtime.arrays import Ints

#: 1.04 / sqrt(4096 registers).
STANDARD_ERROR = 1.04 / 64


class Distinct(Accumulator):
    """The set of the measures' hashes (`kernels.hll`); it does not depend on the batches.

    A measure is taken as the text that was cut out: "1" and "1.0" are two. Texts with the same 64-bit hash
    count as one: among a million texts that happens once in 40 million times.
    """

    name = "hll"

    def __init__(self) -> None:
        self.columns = {"hll": pa.binary()}

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        from sluice.metrics.kernels import hll

        codes, _, bounds = batch.pairs
        data, ends = hll.add(batch.text.hashes, codes, bounds)
        return {"hll": binary(data, ends)}

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        from sluice.metrics.kernels import hll
        from sluice.metrics.kernels.row_groups import by_group

        data, ends, sound = hll.merge(*buffers(columns["hll"]), *by_group(groups, size))
        if not sound:
            raise Damaged("hll")
        return {"hll": binary(data, ends)}


HLL = Distinct()


class Unique(Metric):
    name = "unique"
    accumulators = (HLL,)
    measure = "any"
    tolerance = 0.0  # both layers come to the same registers
    sketched = True

    def results(self, columns: Columns) -> Results:
        """The number of different measures; 0 for a series without any.

        The error is the estimate's relative standard error.
        """
        from sluice.metrics.kernels import hll

        data, bounds = buffers(columns["hll"])
        lengths = np.diff(bounds)
        counts = lengths // 8
        estimated = lengths == hll.DENSE
        if estimated.any():
            ranks = hll.histograms(data, bounds[:-1][estimated])
            counts[estimated] = np.rint(hll.estimate(ranks)).astype(np.int64)
        errors = np.where(estimated, STANDARD_ERROR, 0.0)
        return Results(counts.astype(np.float64), counts, np.ones(len(counts), bool), errors=errors)
