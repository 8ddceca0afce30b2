"""Plain, slow, obviously right versions of kg2, dkg, dag, nag and tag, in dictionaries and lists.

Each has `route(key)` and, where the rule has windows, `window(cluster)`. Only the hashes are the real ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from math import ceil

from sluice.grouping.base import Cluster
from sluice.grouping.hashing import mix, second_worker, worker_of


def hashed(key: int, seed: int, workers: int) -> int:
    return int(worker_of(mix(key, 2 * seed), workers))


def candidates(key: int, seed: int, wanted: int, workers: int) -> list[int]:
    """From the first on by the distance to the second, past those that it has already."""
    first = hashed(key, seed, workers)
    second = int(second_worker(key, 2 * seed + 1, first, workers))
    found = [first]
    worker = first
    while len(found) < min(wanted, workers):
        worker = (worker + second - first) % workers
        while worker in found:
            worker = (worker + 1) % workers
        found.append(worker)
    return found


class LossyCounting:
    def __init__(self, epsilon: float) -> None:
        self.width, self.bucket, self.total = ceil(1 / epsilon), 1, 0
        self.entries: dict[int, tuple[int, int]] = {}

    def observe(self, key: int) -> int:
        count, delta = self.entries.get(key, (0, self.bucket - 1))
        self.entries[key] = count + 1, delta
        self.total += 1
        if self.total % self.width == 0:
            self.entries = {k: (c, d) for k, (c, d) in self.entries.items() if c + d > self.bucket}
            self.bucket += 1
        return count + 1


class SpaceSaving:
    """Counters in ascending order; of equal ones the last grows."""

    def __init__(self, counters: int) -> None:
        self.keys: list[int | None] = [None] * counters
        self.counts = [0] * counters

    @property
    def total(self) -> int:
        return sum(self.counts)

    def observe(self, key: int) -> int:
        at = self.keys.index(key) if key in self.keys else 0
        last = max(i for i, count in enumerate(self.counts) if count == self.counts[at])
        self.keys[at], self.keys[last] = self.keys[last], key
        self.counts[last] += 1
        return self.counts[last]

    def found(self) -> dict[int, int]:
        return {key: count for key, count in zip(self.keys, self.counts, strict=True) if key is not None}


class KG2:
    def __init__(self, workers: int, seed: int, support: float, error: float, part: int) -> None:
        self.summary, self.share = LossyCounting(error), support - error
        self.sent, self.seed, self.many = [0] * workers, seed, max(2, ceil(workers / part))

    def route(self, key: int) -> int:
        hot = self.summary.observe(key) >= self.share * self.summary.total
        allowed = candidates(key, self.seed, self.many if hot else 2, len(self.sent))
        worker = min(allowed, key=self.sent.__getitem__)
        self.sent[worker] += 1
        return worker


class TAG:
    def __init__(self, cluster: Cluster, seed: int, hot: float, error: float) -> None:
        self.cluster, self.seed, self.hot, self.error = cluster, seed, hot, error
        self.rows: dict[int, list[int]] = {}
        self.start_window(cluster)

    def start_window(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.summary = SpaceSaving(ceil(cluster.workers / self.error))
        self.sent = [0] * cluster.workers

    def route(self, key: int) -> int:
        self.summary.observe(key)
        allowed = self.rows.get(key) or candidates(key, self.seed, 2, self.cluster.workers)
        worker = min(allowed, key=lambda i: self.cluster.times[i] * self.sent[i])
        self.sent[worker] += 1
        return worker

    def window(self, cluster: Cluster) -> None:
        least = self.hot / cluster.workers * self.summary.total
        upto = list(accumulate(cluster.shares.tolist()))
        self.rows = {}
        for key, count in self.summary.found().items():
            if count >= least:
                drawn = [self.draw(key, segment, upto) for segment in range(ceil(count / least))]
                self.rows[key] = list(dict.fromkeys(drawn))
        self.start_window(cluster)

    def draw(self, key: int, segment: int, upto: list[float]) -> int:
        point = (int(mix(mix(key, mix(self.seed, 3)), segment)) >> 11) / 2**53
        return next((i for i, bound in enumerate(upto) if point < bound), len(upto) - 1)


class NAG:
    def __init__(self, cluster: Cluster, source: int, adjust: float) -> None:
        self.weights = [1 / t for t in cluster.times]
        self.sent, self.first, self.adjust = [0] * cluster.workers, source % cluster.workers, adjust

    def route(self, key: int) -> int:
        workers = len(self.sent)
        turns = [(self.first + i) % workers for i in range(workers)]
        worker = min(turns, key=lambda i: (self.sent[i] + 1) * (1 / self.weights[i]))
        self.sent[worker] += 1
        return worker

    def window(self, cluster: Cluster) -> None:
        self.weights = [
            (1 - self.adjust) * weight + self.adjust * (1 / t)
            for weight, t in zip(self.weights, cluster.times, strict=True)
        ]
        self.sent = [0] * cluster.workers


class DAG:
    def __init__(
        self, workers: int, *, source: int, seed: int, hot: float, error: float, slack: float, room: int
    ) -> None:
        self.sent, self.first, self.seed = [0] * workers, source % workers, seed
        self.summary, self.hot, self.slack, self.room = SpaceSaving(ceil(workers / error)), hot, slack, room
        self.held: dict[int, set[int]] = {}

    def is_hot(self, count: int) -> bool:
        total = self.summary.total
        return count * len(self.sent) >= self.hot * total and total >= len(self.summary.counts)

    def route(self, key: int) -> int:
        worker = hashed(key, self.seed, len(self.sent))
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

    def window(self, cluster: Cluster) -> None:
        counts = self.summary.found()
        self.held = {key: held for key, held in self.held.items() if self.is_hot(counts.get(key, 0))}


class DKG:
    """One source; `build` is for all."""

    def __init__(self, workers: int, seed: int, error: float, buckets: int) -> None:
        self.workers, self.seed, self.error, self.size = workers, seed, error, workers * buckets
        self.hot: dict[int, int] = {}
        self.cold = [bucket // buckets for bucket in range(self.size)]
        self.learning = True
        self.start()

    def start(self) -> None:
        self.summary, self.seen = SpaceSaving(ceil(self.workers / self.error)), [0] * self.size

    def bucket(self, key: int) -> int:
        return hashed(key, self.seed, self.size)

    def route(self, key: int) -> int:
        if self.learning:
            self.summary.observe(key)
            self.seen[self.bucket(key)] += 1
        return self.hot.get(key, self.cold[self.bucket(key)])


def build(sources: Iterable[DKG], workers: int, hot: float, *, once: bool) -> None:
    sources = list(sources)
    first = sources[0]
    seen = [sum(source.seen[bucket] for source in sources) for bucket in range(first.size)]
    total = sum(seen)
    if not first.learning or not total:
        return
    counts: dict[int, int] = {}
    for source in sources:
        for key, count in source.summary.found().items():
            counts[key] = counts.get(key, 0) + count
    counts = {key: count for key, count in sorted(counts.items()) if count * workers >= hot * total}
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
