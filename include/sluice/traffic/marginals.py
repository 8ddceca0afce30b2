"""A whole distribution of keys from the few figures that a paper prints of it.

Paper 000, section 3.3.1 and table 1, gives these figures of its two data sets: the visits, the distinct keys,
the shares of the most frequent key and of the ten most frequent, and how many keys have more than 10,000 and
more than 1,000 visits. It does not say what lies between.

The fit: frequency against rank, piecewise, through exactly those points.

    rank 1                 the top share                          given
    ranks 2..10            a power law, the rest of the top ten   its level follows, its exponent is chosen
    ranks 11..over_10k     bent power law down to 10,000 visits   the bend follows: all must add up to 1
    .. over_1k             power law from 10,000 to 1,000 visits  no freedom
    .. keys                power law from 1,000 to the last key   its exponent is chosen
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sluice.runtime.arrays import Floats, Ints

_BISECTIONS = 60


@dataclass(frozen=True)
class Marginals:
    """The figures printed of a data set, and the exponents chosen for it.

    top, top_ten: parts of all visits. over_10k, over_1k: numbers of keys.
    """

    visits: int
    keys: int
    top: float
    top_ten: float
    over_10k: int
    over_1k: int
    top_ten_exponent: float
    tail_exponent: float

    def frequencies(self) -> Floats:
        """The probability of each key, most frequent first; they add up to 1."""
        ten = np.arange(2, 11, dtype=np.float64) ** -self.top_ten_exponent
        ten *= (self.top_ten - self.top) / ten.sum()

        # Just over the limits of paper 000, so that the last key counted is over them.
        high, low = 10_000.5 / self.visits, 1_000.5 / self.visits
        ranks = np.arange(self.over_10k + 1, self.over_1k + 1)
        middle = _power(ranks, self.over_10k, high, self.over_1k, low)
        tail = low * (np.arange(self.over_1k + 1, self.keys + 1) / self.over_1k) ** -self.tail_exponent

        ranks = np.arange(11, self.over_10k + 1)
        straight = _power(ranks, 10, float(ten[-1]), self.over_10k, high)
        left = 1 - self.top_ten - middle.sum() - tail.sum()
        return np.concatenate([[self.top], ten, _bent(ranks, straight, left), middle, tail])


def _power(ranks: Ints, first: int, at_first: float, last: int, at_last: float) -> Floats:
    """The power law through (first, at_first) and (last, at_last)."""
    exponent = np.log(at_first / at_last) / np.log(last / first)
    return np.asarray(at_first * (ranks / first) ** -exponent)


def _bent(ranks: Ints, straight: Floats, total: float) -> Floats:
    """The power law times exp(bend u (1 - u)), with the bend that makes it add up to `total`.

    u goes from 0 to 1 along the logarithm of the rank.
    """
    u = np.log(ranks / 10) / np.log(ranks[-1] / 10)
    low, high = -10.0, 10.0
    for _ in range(_BISECTIONS):
        bend = (low + high) / 2
        if (straight * np.exp(bend * u * (1 - u))).sum() < total:
            low = bend
        else:
            high = bend
    return np.asarray(straight * np.exp(low * u * (1 - u)))
