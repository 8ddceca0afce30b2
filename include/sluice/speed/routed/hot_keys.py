"""Which keys of a task are hot, over its last batches.

The batches' exact counts by key are added up with a half-life. Beyond `ROOM` keys the least frequent are
dropped, as in a merge of summaries (Agarwal et al. 2012, "Mergeable summaries"). Each key that is kept has
its own bound on the count that it may have lost: 0 for a key that was always among the most frequent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sluice.engine.groups import code
from sluice.runtime.arrays import Floats, Ints

#: How many keys of a task are remembered.
ROOM = 1_024
#: In batches.
HALF_LIFE = 8.0


@dataclass(frozen=True)
class HotKey:
    """A key's share of its task's tuples; `error` is by how much the share may be too low."""

    key: str
    share: float
    error: float


class RoutedHotKeys:
    """The hot keys of one task."""

    def __init__(self) -> None:
        self._keys = pa.array([], pa.string())
        self._counts, self._lost = np.zeros(0), np.zeros(0)
        self._dropped = 0.0  # the most that a key that is not here may have had
        self._total = 0.0

    def add(self, keys: pa.Array, counts: Ints, tuples: int | None = None, unnamed: float = 0.0) -> None:
        """A batch's tuples by key, each key once. O(keys).

        If not all keys are given: `tuples` are those of all keys, `unnamed` the most that another key has.
        """
        kept = 0.5 ** (1 / HALF_LIFE)
        whole = float(counts.sum() if tuples is None else tuples)
        self._counts, self._lost = self._counts * kept, self._lost * kept
        self._dropped, self._total = self._dropped * kept, self._total * kept + whole
        if len(keys) > ROOM:
            top, next_ = _largest(counts.astype(np.float64))
            keys, counts, unnamed = keys.take(pa.array(top)), counts[top], max(unnamed, next_)
        self._merge(keys, counts, unnamed)
        if len(self._keys) <= ROOM:  # only what the batch itself leaves out is dropped
            self._dropped += unnamed
            return
        most, _ = _largest(self._counts)
        dropped = np.ones(len(self._counts), bool)
        dropped[most] = False
        self._dropped = max(
            self._dropped + unnamed, float((self._counts + self._lost)[dropped].max(initial=0))
        )
        self._keys = self._keys.take(pa.array(most))
        self._counts, self._lost = self._counts[most], self._lost[most]

    def _merge(self, keys: pa.Array, counts: Ints, unnamed: float) -> None:
        """Add a batch's most frequent keys; no other key had more than `unnamed` there."""
        before = len(self._keys)
        coded, distinct = code(pa.concat_arrays([self._keys, keys]))
        old, new = coded.codes[:before], coded.codes[before:]
        merged, lost = np.zeros(len(distinct)), np.full(len(distinct), self._dropped)
        merged[old], lost[old] = self._counts, self._lost + unnamed
        lost[new] -= np.where(np.isin(new, old), unnamed, 0)
        merged[new] += counts
        self._keys, self._counts, self._lost = distinct, merged, lost

    def top(self, number: int) -> list[HotKey]:
        """The most frequent keys, at most `number`; equally frequent ones are sorted by name."""
        if not self._total:
            return []
        where = np.argsort(-self._counts, kind="stable")[:number]
        names = self._keys.take(pa.array(where)).to_pylist()
        shares, errors = self._counts[where] / self._total, self._lost[where] / self._total
        found = [HotKey(*each) for each in zip(names, shares.tolist(), errors.tolist(), strict=True)]
        return sorted(found, key=lambda hot: (-hot.share, hot.key))


def _largest(counts: Floats) -> tuple[Ints, float]:
    """Where the ROOM largest of more than ROOM counts are, and the largest of the others."""
    order = np.argpartition(counts, len(counts) - ROOM)
    return order[-ROOM:], float(counts[order[:-ROOM]].max())
