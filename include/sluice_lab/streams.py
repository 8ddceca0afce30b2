"""Streams of keys whose frequencies are known: EDU and ISP of paper 000, and Zipf's law.

A stream comes in batches. The key of a rank is the same in every batch and for every seed, so what was learnt
from one batch can be tried on the next. A seed decides only which tuples come, and in which order.

Keys are drawn by inversion with a guide table (Chen and Asau 1974, "On generating random variates from an
empirical distribution"): a draw takes constant expected time, even from ten million keys.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from sluice.grouping.base import Targets
from sluice.grouping.compiled import kernel
from sluice.grouping.hashing import mix
from sluice.runtime.arrays import Floats, Hashes, Ints
from sluice.traffic import edu as edu_data_set
from sluice_lab import isp as isp_data_set

MOST_KEYS = 10_000_000
MOST_EXPONENT = 4.0

_IDENTITY = np.uint64(0x51)  # a key is this hash of its rank; a router mixes with other seeds


class NoSuchStream(ValueError):
    """The laboratory has no such stream, or the stream's parameters are out of bounds."""


class Stream(ABC):
    """An endless sequence of keys, batch after batch."""

    name: str

    @abstractmethod
    def batch(self, number: int, n: int, *, seed: int = 0) -> Hashes:
        """The keys of the n tuples of batch `number` (from 0), in their order; shape (n,)."""


class Inversion:
    """Draws ranks, 0 for the most frequent, from their probabilities.

    probabilities: shape (keys,), positive, adding up to 1. Memory: 12 bytes a key.
    """

    def __init__(self, probabilities: Floats) -> None:
        self._cumulative = np.cumsum(probabilities)
        self._cumulative[-1] = 1.0  # despite rounding, because a draw may be anything below 1
        steps = np.arange(len(probabilities)) / len(probabilities)
        self._guide = np.searchsorted(self._cumulative, steps, side="right").astype(np.int32)

    def ranks(self, n: int, random: np.random.Generator) -> Ints:
        return _invert(random.random(n), self._cumulative, self._guide)


@dataclass(frozen=True, eq=False)
class Independent(Stream):
    """Tuples drawn independently, each key with its probability."""

    name: str
    probabilities: Floats

    @functools.cached_property
    def _inversion(self) -> Inversion:
        return Inversion(self.probabilities)

    def ranks(self, number: int, n: int, *, seed: int = 0) -> Ints:
        """The batch as ranks, 0 for the most frequent key."""
        return self._inversion.ranks(n, np.random.default_rng([seed, number]))

    def batch(self, number: int, n: int, *, seed: int = 0) -> Hashes:
        return keys_of(self.ranks(number, n, seed=seed))


@functools.cache
def edu_stream() -> Independent:
    return Independent("edu", edu_data_set.frequencies())


@functools.cache
def isp_stream() -> Independent:
    return Independent("isp", isp_data_set.frequencies())


@functools.lru_cache(maxsize=4)  # ten million keys take 200 MB
def zipf_stream(z: float, keys: int) -> Independent:
    """Zipf's law: the key of rank r has a probability proportional to r to the power -z.

    z: 0 (all alike) to 4. keys: 1 to 10 million. Raises NoSuchStream beyond these bounds.
    """
    if not 0 <= z <= MOST_EXPONENT or not 1 <= keys <= MOST_KEYS:
        raise NoSuchStream(
            f"zipf: z = {z:g}, {keys:,} keys; z must be 0 to {MOST_EXPONENT:g}, keys 1 to {MOST_KEYS:,}"
        )
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -z
    return Independent(f"zipf:{z:g}:{keys}", weights / weights.sum())


def edu(n: int, seed: int = 0) -> Hashes:
    """n keys of EDU; other seeds draw other tuples of the same keys."""
    return edu_stream().batch(0, n, seed=seed)


def isp(n: int, seed: int = 0) -> Hashes:
    """n keys of ISP."""
    return isp_stream().batch(0, n, seed=seed)


def zipf(n: int, z: float = 1.0, keys: int = 1_000_000, seed: int = 0) -> Hashes:
    """n keys of Zipf's law. Raises NoSuchStream (see `zipf_stream`)."""
    return zipf_stream(z, keys).batch(0, n, seed=seed)


@kernel
def keys_of(ranks: Ints) -> Hashes:
    """The key of each rank: distinct, and scattered over 64 bits as hashes of real keys are."""
    found = np.empty(len(ranks), np.uint64)
    for i in range(len(ranks)):
        found[i] = mix(np.uint64(ranks[i]), _IDENTITY)
    return found


@kernel
def _invert(uniform: Floats, cumulative: Floats, guide: Targets) -> Ints:
    """For each draw u, the first rank whose cumulative probability exceeds u."""
    found = np.empty(len(uniform), np.int64)
    for i in range(len(uniform)):
        u = uniform[i]
        rank = np.int64(guide[np.int64(u * len(guide))])
        while cumulative[rank] <= u:
            rank += 1
        found[i] = rank
    return found
