"""What became of a day's lines, on its way from Spark's Python workers to the driver.

Spark may run a worker's task again, and then adds to an accumulator again. So a worker says it of its part of
the lines by the part's number: the same part says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from sluice.engine.outcomes import SKIPPED, TALLIES, Reckoning, first_samples, summed
from sluice.engine.wire import to_ipc

#: TALLIES and SKIPPED, as Arrow's bytes, by the number of the part.
Parts = dict[int, tuple[bytes, bytes]]
Tell = Callable[[Parts], object]


class Told:
    """How a Spark accumulator combines them."""

    def zero(self, value: Parts) -> Parts:
        return {}

    def addInPlace(self, one: Parts, other: Parts) -> Parts:
        return {**one, **other}


def tell(reckoning: Reckoning, told: Tell) -> None:
    """Say in a worker what its part of the lines came to."""
    from pyspark import TaskContext

    context = TaskContext.get()
    found, samples = reckoning.tables
    told({context.partitionId() if context is not None else 0: (to_ipc(found), to_ipc(samples))})


def gathered(parts: Mapping[int, tuple[bytes, bytes]]) -> tuple[pa.Table, pa.Table]:
    """TALLIES and SKIPPED of all parts."""
    found = [[pa.ipc.open_stream(each).read_all() for each in pair] for _, pair in sorted(parts.items())]
    return (
        summed([TALLIES.empty_table(), *(pair[0] for pair in found)]),
        first_samples([SKIPPED.empty_table(), *(pair[1] for pair in found)]),
    )
