"""Trials of strategies; what each batch of a trial measured is a row of figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from sluice.grouping.base import WorkerCluster
from sluice.runtime.arrays import Hashes
from sluice_lab import named
from sluice_lab.queueing import Arrivals, latency
from sluice_lab.simulate import A_KEY, SimulatedRun, simulate
from sluice_lab.streams import Stream

#: A row of figures, by name: those of a setting, and those of a batch (`SimulatedBatch`) or a latency.
Row = dict[str, str | int | float]

SOURCES = 5  # as in the experiments of Nasir et al. 2015
TUPLES = 1_000_000
BATCHES = 2  # the second is the first for which there can be a plan


@dataclass(frozen=True)
class Setting:
    """What strategies are tried on.

    batches, tuples: how many batches, of how many tuples each. times: the workers' times (`named.TIMES`).
    a_key: bytes of state that one key takes at a worker.
    """

    stream: Stream
    workers: int = 64
    times: str = "equal"
    sources: int = SOURCES
    batches: int = BATCHES
    tuples: int = TUPLES
    seed: int = 0
    a_key: int = A_KEY

    def cluster(self) -> WorkerCluster:
        return named.cluster(self.times, self.workers)

    def keys(self) -> list[Hashes]:
        return [self.stream.batch(number, self.tuples, seed=self.seed) for number in range(self.batches)]

    def labels(self, strategy: str) -> Row:
        return {
            "strategy": strategy,
            "stream": self.stream.name,
            "workers": self.workers,
            "sources": self.sources,
            "times": self.times,
        }


def run(strategy: str, setting: Setting, keys: Sequence[Hashes] | None = None) -> SimulatedRun:
    """Try one strategy (`named.strategy`).

    keys: the setting's batches, if they have been drawn before.
    """
    return simulate(
        named.strategy(strategy),
        setting.keys() if keys is None else keys,
        setting.cluster(),
        sources=setting.sources,
        seed=setting.seed,
        a_key=setting.a_key,
    )


def rows(strategy: str, setting: Setting, found: SimulatedRun) -> list[Row]:
    """A row for each batch."""
    return [setting.labels(strategy) | asdict(batch) for batch in found.batches]


def waits(
    strategy: str,
    setting: Setting,
    found: SimulatedRun,
    utilisations: Sequence[float],
    arrivals: Arrivals = "poisson",
) -> Iterator[Row]:
    """The latency of the last batch's tuples at each utilisation, in the workers' unit of time."""
    for utilisation in utilisations:
        took = latency(
            found.last.targets, setting.cluster(), utilisation, arrivals=arrivals, seed=setting.seed
        )
        yield setting.labels(strategy) | {"utilisation": utilisation} | asdict(took)
