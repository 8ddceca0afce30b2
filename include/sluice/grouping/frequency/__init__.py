"""How often keys occur: estimators that a router's loop feeds with each tuple's key.

Each is a NamedTuple of arrays with the same functions around it:

- a constructor, whose memory is fixed by its parameters (`exact` grows between batches);
- `observe(state, key) -> estimate`, a step: counts the key and returns its estimated count;
- `observe_all(state, keys)`, a kernel: the same for a batch;
- `frequent(state, share) -> Frequent`: the keys whose estimate is at least that share of the total;
- `error_bound(state)`: by how many tuples an estimate may be wrong;
- `total[0]`: the tuples counted.

| estimator | estimate | wrong by at most | counters |
|---|---|---|---|
| `exact` | exact | 0 | distinct keys |
| `space_saving` | too high | total / counters | fixed |
| `lossy_counting` | too low | epsilon * total | 1/epsilon * log(epsilon * total) |

All forget by the same rule (`decay`). With it, totals and estimates are weighted counts.
"""

from __future__ import annotations

from typing import NamedTuple

from sluice.runtime.arrays import Hashes, Ints


class Frequent(NamedTuple):
    """Keys in descending order of estimate; true counts are in lower .. upper. Shapes (keys,)."""

    keys: Hashes
    estimates: Ints
    lower: Ints
    upper: Ints
