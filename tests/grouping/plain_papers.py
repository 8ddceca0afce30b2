"""Slow, plain versions of kg2, dkg, dag, nag and tag with dictionaries and lists.

Each has `route(key)` and, where the rule has windows, `window(cluster)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from math import ceil

from sluice.grouping.base import WorkerCluster
from tests.grouping.plain import LossyCounting, SpaceSaving, candidates, mix


def found(summary: SpaceSaving) -> dict[int, int]:
    """The keys that have a counter."""
    return {key: count for count, key, _ in summary.counters if count}


class KG2:
    def __init__(self, workers: int, seed: int, support: float, error: float, part: int) -> None:
        self.summary, self.share = LossyCounting(error), support - error
        self.sent, self.seed, self.many = [0] * workers, seed, max(2, ceil(workers / part))

    def route(self, key: int) -> int:
        hot = self.summary.observe(key) >= self.share * self.summary.total
        allowed = candidates(key, self.many if hot else 2, len(self.sent), self.seed)
        worker = min(allowed, key=self.sent.__getitem__)
        self.sent[worker] += 1
        return worker


class TAG:
    def __init__(self, cluster: WorkerCluster, seed: int, theta: float, counters: int) -> None:
        self.cluster, self.seed, self.theta, self.counters = cluster, seed, theta, counters
        self.rows: dict[int, list[int]] = {}
        self.start_window(cluster)

    def start_window(self, cluster: WorkerCluster) -> None:
        self.cluster = cluster
        self.summary = SpaceSaving(cluster.workers * self.counters)
        self.sent = [0] * cluster.workers

    def route(self, key: int) -> int:
        self.summary.observe(key)
        allowed = self.rows.get(key) or candidates(key, 2, self.cluster.workers, self.seed)
        worker = min(allowed, key=lambda i: self.cluster.times[i] * self.sent[i])
        self.sent[worker] += 1
        return worker

    def window(self, cluster: WorkerCluster) -> None:
        least = self.theta / cluster.workers * self.summary.total
        upto = list(accumulate(cluster.shares.tolist()))
        self.rows = {}
        for key, count in found(self.summary).items():
            if count >= least:
                drawn = [self.draw(key, segment, upto) for segment in range(ceil(count / least))]
                self.rows[key] = list(dict.fromkeys(drawn))
        self.start_window(cluster)

    def draw(self, key: int, segment: int, upto: list[float]) -> int:
        point = (mix(mix(key, mix(self.seed, 3)), segment) >> 11) / 2**53
        return next((i for i, bound in enumerate(upto) if point < bound), len(upto) - 1)


class NAG:
    def __init__(self, cluster: WorkerCluster, source: int, adjust: float) -> None:
        self.times = list(cluster.times)  # 1 / weight: rounding twice would break ties otherwise
        self.sent, self.first, self.adjust = [0] * cluster.workers, source % cluster.workers, adjust

    def route(self, key: int) -> int:
        workers = len(self.sent)
        turns = [(self.first + i) % workers for i in range(workers)]
        worker = min(turns, key=lambda i: (self.sent[i] + 1) * self.times[i])
        self.sent[worker] += 1
        return worker

    def window(self, cluster: WorkerCluster) -> None:
        self.times = [
            1 / ((1 - self.adjust) / time + self.adjust * (1 / t))
            for time, t in zip(self.times, cluster.times, strict=True)
        ]
        self.sent = [0] * cluster.workers


class DAG:
    def __init__(
        self, workers: int, *, source: int, seed: int, theta: float, counters: int, slack: float, room: int
    ) -> None:
        self.sent, self.first, self.seed = [0] * workers, source % workers, seed
        self.summary = SpaceSaving(workers * counters)
        self.theta, self.slack, self.room = theta, slack, room
        self.held: dict[int, set[int]] = {}

    def is_hot(self, count: int) -> bool:
        total = self.summary.total
        return count * len(self.sent) >= self.theta * total and total >= len(self.summary.counters)

    def route(self, key: int) -> int:
        (worker,) = candidates(key, 1, len(self.sent), self.seed)
        if self.is_hot(self.summary.observe(key)) and (key in self.held or len(self.held) < self.room):
            worker = self.greedy(self.held.setdefault(key, {worker}))
        self.sent[worker] += 1
        return worker

    def greedy(self, held: set[int]) -> int:
        workers = len(self.sent)
        turns = [(self.first + i) % workers for i in range(workers)]
        best = min(turns, key=self.sent.__getitem__)
        own = min((worker for worker in turns if worker in held), key=self.sent.__getitem__)
        if (self.sent[own] - self.sent[best]) * workers <= self.slack * sum(self.sent):
            return own
        held.add(best)
        return best

    def window(self, cluster: WorkerCluster) -> None:
        counts = found(self.summary)
        self.held = {key: held for key, held in self.held.items() if self.is_hot(counts.get(key, 0))}


class DKG:
    """One source; `build` makes the mapping for all sources."""

    def __init__(self, workers: int, seed: int, counters: int, buckets: int) -> None:
        self.workers, self.seed, self.counters, self.size = workers, seed, counters, workers * buckets
        self.hot: dict[int, int] = {}
        self.cold = [bucket // buckets for bucket in range(self.size)]
        self.learning = True
        self.start()

    def start(self) -> None:
        self.summary, self.seen = SpaceSaving(self.workers * self.counters), [0] * self.size

    def bucket(self, key: int) -> int:
        return candidates(key, 1, self.size, self.seed)[0]

    def route(self, key: int) -> int:
        if self.learning:
            self.summary.observe(key)
            self.seen[self.bucket(key)] += 1
        return self.hot.get(key, self.cold[self.bucket(key)])


def build(sources: Iterable[DKG], workers: int, theta: float, *, once: bool) -> None:
    sources = list(sources)
    first = sources[0]
    seen = [sum(source.seen[bucket] for source in sources) for bucket in range(first.size)]
    total = sum(seen)
    if not first.learning or not total:
        return
    counts: dict[int, int] = {}
    for source in sources:
        for key, count in found(source.summary).items():
            counts[key] = counts.get(key, 0) + count
    counts = {key: count for key, count in sorted(counts.items()) if count * workers >= theta * total}
    for key, count in counts.items():
        seen[first.bucket(key)] = max(0, seen[first.bucket(key)] - count)
    load, placed = [0] * workers, []
    parts = [(count, key) for key, count in counts.items()] + [(count, None) for count in seen]
    for part in sorted(range(len(parts)), key=lambda part: -parts[part][0]):
        worker = load.index(min(load))
        load[worker] += parts[part][0]
        placed.append((part, worker))
    where = dict(placed)
    for source in sources:
        source.hot = {key: where[part] for part, (_, key) in enumerate(parts) if key is not None}
        source.cold = [where[len(counts) + bucket] for bucket in range(first.size)]
        source.learning = not once
        source.start()
