"""What planned grouping remembers of past batches: frequent keys, and bucket totals.

The summary is exact while all keys have room. Beyond that the most frequent keys have room, and the others
are known only by their bucket. So a summary of a hundred million keys is as small as one of ten thousand.
Bucket totals add up exactly. A merge keeps the keys that are most frequent in both summaries together
(Agarwal et al. 2012, "Mergeable summaries"). What a key loses while it is among the others is still in its
bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sluice.grouping.base import Counts
from sluice.grouping.compiled import kernel, step
from sluice.grouping.hashing import mix, worker_of
from sluice.runtime.arrays import Floats, Hashes, Ints

_SUMMARY = np.uint64(0x62)  # which of a key's hashes


@step
def hash_of(key: np.uint64, seed: np.uint64) -> np.uint64:
    """The hash whose high bits name a key's bucket (`worker_of`)."""
    return mix(key, seed ^ _SUMMARY)


@kernel
def _buckets_of(keys: Hashes, seed: np.uint64, buckets: int, found: Ints) -> None:
    for i in range(len(keys)):
        found[i] = worker_of(hash_of(keys[i], seed), buckets)


def buckets_of(keys: Hashes, seed: int, buckets: int) -> Ints:
    """The bucket of each key; shape (keys,)."""
    found = np.empty(len(keys), np.int64)
    _buckets_of(np.require(keys, np.uint64, ["C", "W"]), np.uint64(seed), buckets, found)
    return found


@dataclass(frozen=True, eq=False)
class Summary:
    """Tuples of the past; a batch counts half as much after each half-life.

    seed: of the hash that names buckets. room: for how many keys.
    keys, counts: the most frequent keys, in no particular order; shape (at most room,). A count is exact
    while all keys have room; otherwise it is too low by at most the least count that found room in each
    batch.
    buckets: tuples by bucket, those of the frequent keys included; shape (buckets,).
    distinct: keys by bucket in the last batch; shape (buckets,).
    singles: tuples whose key occurred once in its batch. tuples: all. last: those of the last batch.
    """

    seed: int
    room: int
    keys: Hashes
    counts: Floats
    buckets: Floats
    distinct: Ints
    singles: float = 0.0
    tuples: float = 0.0
    last: int = 0

    @classmethod
    def empty(cls, *, seed: int, room: int, buckets: int) -> Summary:
        keys, counts = np.empty(0, np.uint64), np.empty(0)
        return cls(seed, room, keys, counts, np.zeros(buckets), np.zeros(buckets, np.int64))

    def then(self, batch: Counts, kept: float) -> Summary:
        """This summary, with counts multiplied by `kept`, 0 to 1, and then one more batch.

        A batch without tuples changes nothing. O(distinct keys).
        """
        if not len(batch.keys):
            return self
        numbers = buckets_of(batch.keys, self.seed, len(self.buckets))
        tuples = int(batch.counts.sum())
        top = _largest(batch.counts, self.room)
        keys, counts = self._merged(batch.keys[top], batch.counts[top], kept)
        return Summary(
            self.seed,
            self.room,
            keys,
            counts,
            buckets=self.buckets * kept + np.bincount(numbers, batch.counts, len(self.buckets)),
            distinct=np.bincount(numbers, minlength=len(self.buckets)),
            singles=self.singles * kept + int((batch.counts == 1).sum()),
            tuples=self.tuples * kept + tuples,
            last=tuples,
        )

    def _merged(self, keys: Hashes, counts: Ints, kept: float) -> tuple[Hashes, Floats]:
        both, codes = np.unique(np.concatenate([self.keys, keys]), return_inverse=True)
        merged = np.bincount(codes, np.concatenate([self.counts * kept, counts])).astype(np.float64)
        top = _largest(merged, self.room)
        return both[top], merged[top]

    @property
    def unseen(self) -> float:
        """The expected share of tuples with a new key: the share of tuples whose key came once.

        Good 1953, "The population frequencies of species", formula (9), after Turing.
        """
        return self.singles / self.tuples if self.tuples else 1.0


def _largest(counts: Ints | Floats, room: int) -> Ints:
    """The places of the `room` largest counts, in ascending order; of equal ones the first."""
    if len(counts) <= room:
        return np.arange(len(counts))
    least = np.partition(counts, len(counts) - room)[len(counts) - room]
    above = np.flatnonzero(counts > least)
    equal = np.flatnonzero(counts == least)[: room - len(above)]
    return np.sort(np.concatenate([above, equal]))
