"""How often each key occurs: the EDU data set of paper 000, section 3.3.1 and table 1.

Paper 000 describes 24 hours of a university's web traffic, keyed by domain: 32 M visits of 12,078 domains.
The most frequent domain has 7.42 % of the visits, the ten most frequent have 12.5 % together. About 75 % of
the domains were visited less than 1,000 times, and only 4.39 % more than 10,000 times.

The fit is that of `marginals`. Two exponents are chosen: that of the top ten (flat, or rank 2 alone would
have a tenth of their visits) and that of the tail (the last key has some 20 of the 32 M visits, so all 12,078
occur). The 520 keys of ranks 11 to 530 must have 61 % of all visits. A straight power law between the ends of
this range gives them less, hence the bend.
"""

from __future__ import annotations

import functools

from sluice.runtime.arrays import Floats
from sluice.traffic.marginals import Marginals

VISITS = 32_000_000
KEYS = 12_078
EDU = Marginals(
    visits=VISITS,
    keys=KEYS,
    top=0.0742,
    top_ten=0.125,
    over_10k=530,  # 4.39 % of the keys
    over_1k=3_019,  # 25 %
    top_ten_exponent=0.2,
    tail_exponent=2.8,
)


@functools.cache
def frequencies() -> Floats:
    """The probability of each key, most frequent first; they add up to 1."""
    return EDU.frequencies()
