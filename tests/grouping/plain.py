"""Slow, plain versions of hashes, estimators and strategies; the kernels must equal them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

ALL_BITS = (1 << 64) - 1


def mix(key: int, seed: int) -> int:
    """Output number `seed` of a splitmix64 that began with state `key`."""
    z = (key + 0x9E3779B97F4A7C15 * (seed + 1)) & ALL_BITS
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & ALL_BITS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & ALL_BITS
    return z ^ (z >> 31)


def worker_of(hashed: int, workers: int) -> int:
    return math.floor(Fraction(hashed >> 32, 1 << 32) * workers)


def candidates(key: int, count: int, workers: int, seed: int) -> list[int]:
    """The first `count` workers in a key's sequence of all workers."""
    first = worker_of(mix(key, 2 * seed), workers)
    if workers == 1:
        return [first]
    others = [worker for worker in range(workers) if worker != first]
    second = others[worker_of(mix(key, 2 * seed + 1), workers - 1)]
    order: list[int] = []
    worker = first
    while len(order) < min(count, workers):
        if worker in order:
            worker = (worker + 1) % workers
        order.append(worker)
        worker = (worker + second - first) % workers
    return order


class SpaceSaving:
    """Counters as a list of [count, key, error], ascending; those without a key have count 0."""

    def __init__(self, counters: int, half_life: int = 1 << 40) -> None:
        self.counters: list[list[int]] = [[0, -1, 0] for _ in range(counters)]
        self.total, self.half_life = 0, half_life

    def observe(self, key: int) -> int:
        if self.total >= 2 * self.half_life:
            self.total //= 2
            for counter in self.counters:
                count, _, error = counter
                counter[0] = math.ceil(count / 2)
                counter[2] = counter[0] - (count - error) // 2
        self.total += 1
        if key not in (counter[1] for counter in self.counters):
            self.counters[0][1:] = key, self.counters[0][0]
        at = next(i for i, counter in enumerate(self.counters) if counter[1] == key)
        count = self.counters[at][0]
        last = max(i for i, counter in enumerate(self.counters) if counter[0] == count)
        self.counters[at], self.counters[last] = self.counters[last], self.counters[at]
        self.counters[last][0] += 1
        return count + 1


class LossyCounting:
    """Entries as a dictionary from keys to (count, delta)."""

    def __init__(self, epsilon: float, half_life: int = 1 << 40) -> None:
        self.entries: dict[int, tuple[int, int]] = {}
        self.width = math.ceil(1 / epsilon)
        self.half_life = math.ceil(half_life / self.width) * self.width
        self.bucket, self.total = 1, 0

    def observe(self, key: int) -> int:
        count, delta = self.entries.get(key, (0, self.bucket - 1))
        self.entries[key] = (count + 1, delta)
        self.total += 1
        if self.total == self.bucket * self.width:
            self._prune()
            if self.total >= 2 * self.half_life:
                self.bucket //= 2
                self.total = self.bucket * self.width
                self.entries = {
                    k: (n // 2, math.ceil((n + d) / 2) - n // 2) for k, (n, d) in self.entries.items()
                }
                self._prune()
            self.bucket += 1
        return count + 1

    def _prune(self) -> None:
        self.entries = {k: (n, d) for k, (n, d) in self.entries.items() if n + d > self.bucket}


class Exact:
    def __init__(self, half_life: int = 1 << 40) -> None:
        self.counts: Counter[int] = Counter()
        self.total, self.half_life = 0, half_life

    def observe(self, key: int) -> int:
        if self.total >= 2 * self.half_life:
            self.total //= 2
            self.counts = Counter({k: n // 2 for k, n in self.counts.items() if n > 1})
        self.total += 1
        self.counts[key] += 1
        return self.counts[key]


class Source:
    """A source that sends each tuple to the least loaded of the workers that its rule allows."""

    def __init__(self, times: list[float], source: int = 0, seed: int = 0) -> None:
        self.times, self.source, self.seed = times, source, seed
        self.workers = len(times)
        self.sent = [0] * self.workers

    def allowed(self, key: int) -> list[int]:
        raise NotImplementedError

    def hashed(self, key: int, count: int) -> list[int]:
        return candidates(key, count, self.workers, self.seed)

    def everyone(self) -> list[int]:
        """All workers, starting with this source's own first one."""
        return [(self.source + i) % self.workers for i in range(self.workers)]

    def route(self, keys: Iterable[int]) -> list[int]:
        targets = []
        for key in keys:
            worker = min(self.allowed(key), key=lambda w: self.sent[w])  # the first of equal ones
            self.sent[worker] += 1
            targets.append(worker)
        return targets


class Key(Source):
    def allowed(self, key: int) -> list[int]:
        return self.hashed(key, 1)


class Shuffle(Source):
    def allowed(self, key: int) -> list[int]:
        return [(self.source + self.seed + sum(self.sent)) % self.workers]


class PartialKey(Source):
    def allowed(self, key: int) -> list[int]:
        return self.hashed(key, 2)


class WChoices(Source):
    theta, counters, half_life = 0.2, 50, 1 << 40

    def __init__(self, times: list[float], source: int = 0, seed: int = 0) -> None:
        super().__init__(times, source, seed)
        self.summary = SpaceSaving(self.counters * self.workers, self.half_life)

    def hot(self, key: int) -> bool:
        return self.summary.observe(key) >= self.theta / self.workers * self.summary.total

    def allowed(self, key: int) -> list[int]:
        return self.everyone() if self.hot(key) else self.hashed(key, 2)


class DChoices(WChoices):
    epsilon, solve_every = 1e-4, 10_000

    def __init__(self, times: list[float], source: int = 0, seed: int = 0) -> None:
        super().__init__(times, source, seed)
        self.tuples, self.solve_at, self.interval, self.d = 0, 1, 1, min(2, self.workers)

    def allowed(self, key: int) -> list[int]:
        hot = self.hot(key)
        self.tuples += 1
        if self.tuples == self.solve_at:
            self.interval = min(2 * self.interval, self.solve_every)
            self.solve_at += self.interval
            counts = [count for count, _, _ in reversed(self.summary.counters)]
            total = self.summary.total
            head = [n / total for n in counts if n >= self.theta / self.workers * total]
            self.d = fewest_choices(head, self.workers, self.epsilon)
        if not hot:
            return self.hashed(key, 2)
        return self.everyone() if self.d == self.workers else self.hashed(key, self.d)


def fewest_choices(head: list[float], workers: int, epsilon: float) -> int:
    """d for a head of these shares, in descending order; `workers` if fewer are not enough."""
    least = max([2, *(math.ceil(p * workers) for p in head[:1])])
    return next((d for d in range(least, workers) if enough(head, workers, d, epsilon)), workers)


def enough(head: list[float], n: int, d: int, epsilon: float) -> bool:
    """The paper's constraint for each prefix of the head."""
    tail = 1 - sum(head)
    for h in range(1, len(head) + 1):
        b = n - n * ((n - 1) / n) ** (h * d)
        only, rest = sum(head[:h]), sum(head[h:])
        if only + (b / n) ** d * rest + (b / n) ** 2 * tail > b * (1 / n + epsilon):
            return False
    return True
