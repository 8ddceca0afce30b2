"""The routers by which each source sends each task's tuples.

The driver makes them for one batch and ships them to the executors.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sluice.engine.set_aside import CAUGHT, Failures, Version, reason
from sluice.engine.tuples import Tuples, payloads
from sluice.engine.wire import SENT, TUPLES
from sluice.runtime.arrays import Hashes, Int32s

if TYPE_CHECKING:  # it brings numba, and an executor need not wait for that while nothing is routed
    from sluice.grouping.base import Router, Strategy, WorkerCluster

log = logging.getLogger(__name__)

#: Routers as they are after a batch, for the driver to keep.
ROUTERS = pa.schema(
    [
        ("task_id", pa.int32()),
        ("version", pa.int32()),
        ("source", pa.int32()),
        ("state", pa.binary()),
    ]
)

#: Target size in bytes of a batch of payloads for Spark; it has at most one payload more.
BATCH_BYTES = 32 << 20


@dataclass(frozen=True)
class Route:
    """One task's strategy, and the routers of its sources as the last batch left them.

    routers: pickled (see `pickled`), so that a source that routes a batch twice begins with the same router
    both times.
    """

    strategy: Strategy
    cluster: WorkerCluster
    seed: int
    routers: bytes

    def router(self, source: int) -> Router:
        """The router of a source; a new one for a source that the driver did not know."""
        made = self.strategy.router(self.cluster, source=source, seed=self.seed)
        # Only the driver and its own executors exchange these, as they do functions.
        carried = pickle.loads(self.routers).get(source)  # noqa: S301
        if carried is not None:
            made.resume(carried)
        return made


def pickled(routers: Mapping[int, Router]) -> bytes:
    """The routers by source, pickled. What they share, such as a plan, is stored once."""
    return pickle.dumps({source: router.carried() for source, router in routers.items()}, protocol=5)


def resume(router: Router, state: bytes) -> None:
    """Let a router continue from its state in ROUTERS."""
    router.resume(pickle.loads(state))  # noqa: S301 - see `Route.router`


@dataclass(frozen=True)
class Routes:
    """The routes of a batch's routed tasks, by version, and the number of workers."""

    workers: int
    tasks: Mapping[Version, Route]


class Sender:
    """Sends one source's tuples along the routes of one batch."""

    def __init__(self, routes: Routes, source: int) -> None:
        self._routes, self._source = routes, source
        self._routers: dict[Version, Router] = {}

    @property
    def routed(self) -> Collection[Version]:
        return self._routes.tasks.keys()

    def send(self, tuples: Iterable[Tuples], failed: Failures) -> Iterator[pa.RecordBatch]:
        """Rows of SENT; a task whose tuples cannot be sent is noted in `failed`."""
        for each in tuples:
            try:
                messages = self._messages(each)
            except CAUGHT as error:
                failed[each.version] = reason(error)
            else:
                yield from _batches(messages)

    def _messages(self, tuples: Tuples) -> list[tuple[int, bytes]]:
        """Workers and payloads."""
        return list(payloads(tuples, self._targets(tuples.version, tuples.hashes), self._routes.workers))

    def _targets(self, version: Version, hashes: Hashes) -> Int32s:
        """Each tuple's worker; if the strategy raises, the worker of its key's hash.

        Results do not depend on which worker it is.
        """
        try:
            if version not in self._routers:
                self._routers[version] = self._routes.tasks[version].router(self._source)
            return self._routers[version].route(hashes)
        except CAUGHT:
            log.exception("task %dv%d: its lines go to workers by the hash of their keys", *version)
            self._routers.pop(version, None)
            return (hashes % np.uint64(self._routes.workers)).astype(np.int32)

    def routers(self) -> pa.Table:
        """ROUTERS of the strategies that learn from what they route."""
        rows = [
            {
                "task_id": version[0],
                "version": version[1],
                "source": self._source,
                "state": pickle.dumps(router.carried(), protocol=5),
            }
            for version, router in self._routers.items()
            if self._routes.tasks[version].strategy.learns
        ]
        return pa.Table.from_pylist(rows, schema=ROUTERS)


def _batches(messages: list[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
    """Rows of SENT, about BATCH_BYTES at a time."""
    sizes = np.cumsum([len(payload) for _, payload in messages], dtype=np.int64)
    for number in range(int(sizes[-1]) // BATCH_BYTES + 1 if messages else 0):
        own = [m for m, size in zip(messages, sizes.tolist(), strict=True) if size // BATCH_BYTES == number]
        columns = [
            pa.array([TUPLES] * len(own), pa.string()),
            pa.array([payload for _, payload in own], pa.binary()),
            pa.array([worker for worker, _ in own], pa.int32()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SENT)
