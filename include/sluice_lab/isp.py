"""How often each key occurs: the ISP data set of paper 000, section 3.3.1 and table 1.

The paper describes 24 hours of a company's web traffic, keyed by domain: 25 M visits of 15,104 domains. 74 %
of the domains were visited less than 1,000 times, 3.79 % more than 10,000 times. The most frequent domain has
9.01 % of all visits (table 1), the ten most frequent together have 7.7 % (the text).

The last two cannot both be true. The 9.01 % are used because table 2 agrees with them: under key grouping,
ISP is less even than EDU, whose top key has 7.42 %. The 7.7 % are dropped, and the nine keys after the first
get what they have in EDU, 5.08 % together. The fit is that of `marginals`, with EDU's exponents; the last key
has some 23 of the 25 M visits.
"""

from __future__ import annotations

import functools

from sluice.runtime.arrays import Floats
from sluice.traffic import edu
from sluice.traffic.marginals import Marginals

VISITS = 25_000_000
KEYS = 15_104
TOP = 0.0901
ISP = Marginals(
    visits=VISITS,
    keys=KEYS,
    top=TOP,
    top_ten=TOP + edu.EDU.top_ten - edu.EDU.top,
    over_10k=572,  # 3.79 % of the keys
    over_1k=3_927,  # 26 %
    top_ten_exponent=edu.EDU.top_ten_exponent,
    tail_exponent=edu.EDU.tail_exponent,
)


@functools.cache
def frequencies() -> Floats:
    """The probability of each key, most frequent first; they add up to 1."""
    return ISP.frequencies()
