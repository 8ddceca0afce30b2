"""How often each key occurs: the EDU data set of seed 000, section 3.3.1 and table 1.

What the seed says of 24 hours of a university's web traffic, keyed by domain: 32 M visits of 12,078 domains;
the most frequent has 7.42 % of them, the ten most frequent 12.5 % together; about 75 % of the domains were
visited less than 1,000 times, only 4.39 % more than 10,000 times. It does not say what lies between.

The fit: frequency against rank, piecewise, through exactly those points.

    rank 1              7.42 %                                     given
    ranks 2..10         a power law, 12.5 - 7.42 % together        its level follows, its exponent is chosen
    ranks 11..530       bent power law down to 10,000 visits       530 = 4.39 % of the keys; the bend follows
    ranks 531..3019     power law from 10,000 to 1,000 visits      3,019 = 25 % of the keys; no freedom
    ranks 3020..12078   power law from 1,000 to the last key       its exponent is chosen

Two exponents are chosen, that of the top ten (flat, or rank 2 alone would be a tenth of them) and that of
the tail (the last key has some 20 of 32 M visits, so that all 12,078 occur). The bend is what makes it add
up to 1: with the others given, the 520 keys of the third piece must hold 61 % of all visits, more than a
straight power law through its ends does.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

VISITS = 32_000_000
KEYS = 12_078
TOP = 0.0742
TOP_TEN = 0.125
OVER_10K = 530  # keys, 4.39 %
OVER_1K = 3_019  # keys, 25 %

_TOP_TEN_EXPONENT = 0.2
_TAIL_EXPONENT = 2.8
_BISECTIONS = 60

Floats = NDArray[np.float64]


@functools.cache
def frequencies() -> Floats:
    """The probability of each key, most frequent first; they add up to 1."""
    ten = np.arange(2, 11, dtype=np.float64) ** -_TOP_TEN_EXPONENT
    ten *= (TOP_TEN - TOP) / ten.sum()

    # Just over and just under the limits that the seed counts with.
    high, low = 10_000.5 / VISITS, 1_000.5 / VISITS
    middle = _power(np.arange(OVER_10K + 1, OVER_1K + 1), OVER_10K, high, OVER_1K, low)
    tail = low * (np.arange(OVER_1K + 1, KEYS + 1) / OVER_1K) ** -_TAIL_EXPONENT

    ranks = np.arange(11, OVER_10K + 1)
    straight = _power(ranks, 10, float(ten[-1]), OVER_10K, high)
    left = 1 - TOP_TEN - middle.sum() - tail.sum()
    return np.concatenate([[TOP], ten, _bent(ranks, straight, left), middle, tail])


def _power(ranks: NDArray[np.int64], first: int, at_first: float, last: int, at_last: float) -> Floats:
    """The power law through (first, at_first) and (last, at_last)."""
    exponent = np.log(at_first / at_last) / np.log(last / first)
    return np.asarray(at_first * (ranks / first) ** -exponent)


def _bent(ranks: NDArray[np.int64], straight: Floats, total: float) -> Floats:
    """The power law times exp(bend u (1 - u)), u from 0 to 1 along the logarithm of the rank, that adds
    up."""
    u = np.log(ranks / 10) / np.log(ranks[-1] / 10)
    low, high = -10.0, 10.0
    for _ in range(_BISECTIONS):
        bend = (low + high) / 2
        if (straight * np.exp(bend * u * (1 - u))).sum() < total:
            low = bend
        else:
            high = bend
    return np.asarray(straight * np.exp(low * u * (1 - u)))
