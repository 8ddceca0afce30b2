"""Planned grouping in plain Python, a tuple at a time; the kernels must route alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from sluice.grouping.base import WorkerCluster
from sluice.grouping.planned import Planned
from tests.grouping.plain import ALL_BITS, SpaceSaving, mix, worker_of

GOLDEN, APART = 0x9E3779B97F4A7C15, 0xB504F333F9DE6485
Unit = tuple[str, int]  # ("key", a listed key), ("bucket", its number) or ("hot", a key)


class Past:
    """A summary with room for all keys of the past."""

    def __init__(self, buckets: int, seed: int) -> None:
        self.counts: dict[int, float] = {}
        self.buckets, self.distinct = [0.0] * buckets, [0] * buckets
        self.singles, self.tuples, self.last = 0.0, 0.0, 0
        self.seed = seed

    def bucket(self, key: int) -> int:
        return worker_of(mix(key, self.seed ^ 0x62), len(self.buckets))

    def then(self, batch: Counter[int], kept: float) -> None:
        if not batch:
            return
        self.counts = {key: count * kept for key, count in self.counts.items()}
        self.buckets = [tuples * kept for tuples in self.buckets]
        self.distinct = [0] * len(self.buckets)
        for key, count in batch.items():
            self.counts[key] = self.counts.get(key, 0.0) + count
            self.buckets[self.bucket(key)] += count
            self.distinct[self.bucket(key)] += 1
        self.last = batch.total()
        self.singles = self.singles * kept + sum(count == 1 for count in batch.values())
        self.tuples = self.tuples * kept + self.last


class PlainPlan:
    def __init__(self, past: Past, cluster: WorkerCluster, grain: float) -> None:
        self.shares = [float(share) for share in cluster.shares]
        self.expected = past.last
        scale = past.last / past.tuples if past.tuples else 0.0
        unseen = past.singles / past.tuples if past.tuples else 1.0
        expected = {key: count * scale for key, count in past.counts.items()}
        least = max(2.0, grain * past.last / cluster.workers)
        listed = sorted((key for key in expected if expected[key] >= least), key=lambda k: (-expected[k], k))
        weights = [expected[key] for key in listed]

        others, distinct = [tuples * scale for tuples in past.buckets], list(past.distinct)
        known = [0.0] * len(others)
        for key in listed:
            known[past.bucket(key)] += expected[key]
            distinct[past.bucket(key)] -= 1
        new = max(1.0, past.last * unseen) / len(others)
        buckets = [max(o - k, 0) * (1 - unseen) + new for o, k in zip(others, known, strict=True)]

        load = self._place_keys(listed, weights, buckets)
        self.owners = [0] * len(buckets)
        for bucket in sorted(range(len(buckets)), key=lambda b: -buckets[b]):
            self.owners[bucket] = self._first_through(load, buckets[bucket])
            load[self.owners[bucket]] += buckets[bucket]
        self.loose: set[Unit] = set()
        self._loosen(past.last, buckets, distinct)

    def _place_keys(
        self, listed: Sequence[int], weights: Sequence[float], buckets: Sequence[float]
    ) -> list[float]:
        # numpy adds in another order than a loop: other last bits would break ties otherwise.
        total = float(np.sum(weights)) + float(np.sum(buckets))
        load = [0.0] * len(self.shares)
        self.parts: dict[int, list[tuple[int, float]]] = {key: [] for key in listed}
        waiting = [(-weight, number) for number, weight in enumerate(weights)]
        room = [share * total for share in self.shares]
        while waiting:
            waiting.sort()
            negative, number = waiting.pop(0)
            size = -negative
            worker = self._first_through(load, size)
            if size - room[worker] > 0.01 * self.shares[worker] * total and 0 < max(room) < size:
                worker = room.index(max(room))
                waiting.append((room[worker] - size, number))
                size = room[worker]
            load[worker] += size
            room[worker] -= size
            self.parts[listed[number]].append((worker, size))
        return load

    def _loosen(self, last: int, buckets: Sequence[float], distinct: Sequence[int]) -> None:
        for worker, share in enumerate(self.shares):
            pieces: list[tuple[float, float, Unit]] = []
            for key, parts in self.parts.items():
                for at, size in parts:
                    if at == worker:
                        pieces.append((math.inf if len(parts) > 1 else size, size, ("key", key)))
            for bucket, owner in enumerate(self.owners):
                if owner == worker:
                    weight = buckets[bucket]
                    pieces.append((weight / max(distinct[bucket], 1), weight, ("bucket", bucket)))
            marked = 0.0
            for _, size, unit in sorted(pieces, key=lambda piece: -piece[0]):
                if marked < 4.5 * math.sqrt(share * last):
                    self.loose.add(unit)
                marked += size

    def _first_through(self, load: Sequence[float], weight: float) -> int:
        through = [(have + weight) / share for have, share in zip(load, self.shares, strict=True)]
        return through.index(min(through))


class PlainPlanned:
    """One source."""

    def __init__(self, strategy: Planned, cluster: WorkerCluster, *, source: int, seed: int) -> None:
        self.strategy, self.source, self.seed = strategy, source, seed
        self.past = Past(strategy.buckets, seed)
        self._adopt(PlainPlan(self.past, cluster, strategy.grain), 0.0)

    def boundary(self, cluster: WorkerCluster, batch: Counter[int], sources: int) -> None:
        self.past.then(batch, 0.5 ** (1 / self.strategy.half_life))
        plan = PlainPlan(self.past, cluster, self.strategy.grain)
        self._adopt(plan, plan.expected / sources)

    def _adopt(self, plan: PlainPlan, expected: float) -> None:
        self.plan, self.expected = plan, expected
        self.sent, self.tuples = [0] * len(plan.shares), 0
        self.positions = {key: (key * GOLDEN + self.source * APART) & ALL_BITS for key in plan.parts}
        self.elsewhere: dict[Unit, int] = {}
        self.rounds: Counter[Unit] = Counter()
        self.hot: set[int] = set()
        self.seen = SpaceSaving(self.strategy.counters)

    def route(self, key: int) -> int:
        unit: Unit = ("key", key) if key in self.plan.parts else ("bucket", self.past.bucket(key))
        worker = self._part(key) if unit[0] == "key" else self.plan.owners[unit[1]]
        if self._ahead(worker) > self._tolerated() * math.sqrt(self.plan.shares[worker]):
            if unit in self.plan.loose:
                worker = self._elsewhere(unit, key, worker)
            elif self._is_hot(key, worker):
                worker = self._elsewhere(("hot", key), key, worker)
        self.sent[worker] += 1
        self.tuples += 1
        return worker

    def _part(self, key: int) -> int:
        parts = self.plan.parts[key]
        if len(parts) > 1:
            self.positions[key] = (self.positions[key] + GOLDEN) & ALL_BITS
        reached, whole = 0.0, sum(size for _, size in parts)
        for worker, size in parts:
            reached += size
            if self.positions[key] < reached / whole * 2.0**64:
                return worker
        return parts[-1][0]

    def _ahead(self, worker: int) -> float:
        return self.sent[worker] - self.plan.shares[worker] * self.tuples

    def _deviation(self) -> float:
        return math.sqrt(max(self.tuples, self.expected))

    def _tolerated(self) -> float:
        waits = 0.0
        if self.expected > 0:
            passed = min(self.tuples, self.expected) / max(self.expected, 1.0)
            waits = self.strategy.patience * (1 - passed)
        return (self.strategy.tolerance + waits) * self._deviation()

    def _is_hot(self, key: int, worker: int) -> bool:
        if key in self.hot:
            return True
        if len(self.hot) == self.strategy.counters:
            return False
        certain = self.seen.observe(key) - self.seen.total / self.strategy.counters
        alarm = self.strategy.alarm * self._deviation() * math.sqrt(self.plan.shares[worker])
        if certain < max(1.0, alarm):
            return False
        self.hot.add(key)
        return True

    def _elsewhere(self, unit: Unit, key: int, home: int) -> int:
        last = self.elsewhere.get(unit)
        kept = 0.5 * self.strategy.tolerance * self._deviation()
        if last is not None and self._ahead(last) <= kept * math.sqrt(self.plan.shares[last]):
            return last
        best = self._best([home, *(worker for worker, _ in self.plan.parts.get(key, ()) if unit[0] == "key")])
        if self._ahead(best) > 0:
            begin = (self.seed ^ 0x65) + 16 * self.rounds[unit]
            hashes = [mix(key, (begin + i) & ALL_BITS) for i in range(16)]
            self.rounds[unit] += 1
            best = self._best([best, *(worker_of(hashed, len(self.plan.shares)) for hashed in hashes)])
        self.elsewhere[unit] = best
        return best

    def _best(self, workers: list[int]) -> int:
        return min(workers, key=lambda worker: (self.sent[worker] + 1) / self.plan.shares[worker])
