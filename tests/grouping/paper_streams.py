"""Small streams of keys for the tests of the papers' strategies."""

from __future__ import annotations

import numpy as np

from sluice.grouping.base import Targets
from sluice.runtime.arrays import Hashes


def skewed(tuples: int, seed: int, keys: int = 60, z: float = 1.2) -> Hashes:
    """Keys 0 .. keys - 1 by Zipf with exponent z: lower keys are more frequent."""
    chances = 1 / np.arange(1, keys + 1) ** z
    return np.random.default_rng(seed).choice(keys, tuples, p=chances / chances.sum()).astype(np.uint64)


def cold_with(hot: dict[int, float], tuples: int, keys: int = 10_000, seed: int = 1) -> Hashes:
    """Equally frequent keys from 1,000 on, with the `hot` keys at their shares among them."""
    random = np.random.default_rng(seed)
    stream = (1_000 + random.permutation(np.arange(tuples) % keys)).astype(np.uint64)
    places = random.permutation(tuples)
    for key, share in hot.items():
        chosen, places = np.split(places, [round(share * tuples)])
        stream[chosen] = key
    return stream


def workers_of(key: int, keys: Hashes, targets: Targets) -> set[int]:
    """The workers that a key's tuples went to."""
    return set(targets[keys == key].tolist())
