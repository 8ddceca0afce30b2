"""The interface of grouping: a strategy with its parameters, and its sources' routers.

A *source* sends each tuple to one of W *workers*. Its `Router` takes the tuples in their order and decides
only from what this source knows: it never sees another source's tuples. Between two batches (paper 001:
windows) the `Strategy` may look at everything that was counted and give its routers a new plan.

A router makes two separate decisions. An *assignment* says which workers may take a key. A *selection* says
which of them takes this tuple (`selection`), and compares their load by a separate model (`load`). How often
keys occur is estimated in `frequency`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sluice.runtime.arrays import Floats, Hashes, Int32s, Ints

#: A worker for each tuple.
Targets = Int32s

MOST_WORKERS = 1 << 16


class ParameterOutOfBounds(ValueError):
    """A strategy's parameter is out of its bounds; the message names both."""

    def __init__(self, strategy: str, name: str, value: object, bounds: str) -> None:
        super().__init__(f"grouping {strategy}: {name} is {value!r}; it must be {bounds}")


@dataclass(frozen=True)
class WorkerCluster:
    """The workers that tuples are routed to.

    times: mean completion time of a tuple at each worker (t_i of paper 001), any unit; shape (workers,).
    """

    times: tuple[float, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.times) <= MOST_WORKERS:
            raise ValueError(f"workers: {len(self.times)}; there must be 1 to {MOST_WORKERS}")
        if not all(np.isfinite(t) and t > 0 for t in self.times):
            raise ValueError("times: every worker's time must be a positive number")

    @classmethod
    def alike(cls, workers: int) -> WorkerCluster:
        return cls((1.0,) * workers)

    @property
    def workers(self) -> int:
        return len(self.times)

    @property
    def shares(self) -> Floats:
        """The share of tuples that each worker should get: 1/t_i over their sum (paper 001, (4))."""
        rates = 1 / np.asarray(self.times)
        return np.asarray(rates / rates.sum())


@dataclass(frozen=True)
class Counts:
    """How often each key occurred in a batch, in all sources together.

    keys: distinct. counts: above 0.
    """

    keys: Hashes
    counts: Ints

    @classmethod
    def of(cls, keys: Hashes) -> Counts:
        return cls(*np.unique(keys, return_counts=True))


class Router(ABC):
    """One source's part of a strategy: its own counts, summaries and tables.

    The same input gives the same output.
    """

    @abstractmethod
    def route(self, keys: Hashes) -> Targets:
        """The worker of each tuple, in the tuples' order; the router remembers what it routed."""

    def window(self, cluster: WorkerCluster) -> None:  # noqa: B027 - most rules have no windows
        """A window ends; `cluster` has the workers' times as measured in it (paper 001: rebalance)."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The memory that this source's state takes, in bytes."""

    def planned(self) -> dict[str, float] | None:
        """Its plan in figures, or None if it has no plan.

        The figures are tuples `expected`, keys `listed` and `split`, and `buckets`.
        """
        return None

    def carried(self) -> dict[str, Any]:
        """The state that makes a new router continue as this one (`resume`).

        It is sent to where tuples are routed and, if the strategy `learns`, comes back. It is plain data that
        can be pickled. Compiled loops are not part of it, because every process has its own.
        """
        return {name: value for name, value in vars(self).items() if not callable(value)}

    def resume(self, carried: Mapping[str, Any]) -> None:
        """Continue as the router that `carried` comes from, of the same strategy and cluster."""
        vars(self).update(carried)


@dataclass(frozen=True)
class Strategy(ABC):
    """A rule of grouping.

    Subclasses are frozen dataclasses; their fields are the rule's parameters.
    """

    name: ClassVar[str]
    #: Whether a source sends one partial result for each key and batch instead of each tuple.
    combines: ClassVar[bool] = False
    #: Whether a source's routing depends on earlier batches, so its state must come back from where it
    #: routes.
    learns: ClassVar[bool] = True

    @abstractmethod
    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        """The router of source number `source`. All sources of a run share the `seed`."""

    def boundary(self, routers: Sequence[Router], cluster: WorkerCluster, batch: Counts) -> None:
        """End the routers' windows: a batch is over, and `batch` is what it counted."""
        for router in routers:
            router.window(cluster)
