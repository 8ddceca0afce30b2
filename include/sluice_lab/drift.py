"""Streams whose hot key does not stay: it appears, fades, trades places, or is replaced.

Each turns a stream of steady frequencies into one in which a single thing happens. Its time is counted in
batches: at = 1.5 is the middle of the second batch, so a plan made before that batch cannot know of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sluice.runtime.arrays import Floats, Hashes
from sluice_lab.streams import Independent, NoSuchStream, Stream, keys_of

Kind = Literal["appear", "fade", "swap", "move"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_COINS = 1  # which random sequence of a batch; the base's draws are number 0


@dataclass(frozen=True, eq=False)
class Drift(Stream):
    """A stream of steady frequencies, and what happens to it.

    - appear: a new key takes `share` of all tuples, reached evenly within `over` batches;
    - fade: the same in reverse, for a key that had the share from the beginning;
    - swap: the most frequent key and the one in the middle of the ranks trade places;
    - move: the most frequent key's tuples have a new key from then on, and the old key is gone.

    at: when, in batches, >= 0. over: how long appearing and fading take, in batches, >= 0; 0 is at once.
    share: of appear and fade, 0 < share < 1. Raises NoSuchStream beyond these bounds.
    """

    base: Independent
    kind: Kind
    at: float = 1.5
    over: float = 0.0
    share: float = 0.1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise NoSuchStream(f"drift {self.kind!r}: use one of {', '.join(KINDS)}")
        if not (0 <= self.at < np.inf and 0 <= self.over < np.inf and 0 < self.share < 1):
            raise NoSuchStream(
                f"drift with at = {self.at:g}, over = {self.over:g}, share = {self.share:g}: "
                "the first two must be 0 or more batches, the share between 0 and 1"
            )

    @property
    def name(self) -> str:  # type: ignore[override] # a field of streams without parameters
        return f"{self.kind}:{self.base.name}"

    def batch(self, number: int, n: int, *, seed: int = 0) -> Hashes:
        ranks = self.base.ranks(number, n, seed=seed)
        when = number + np.arange(n) / n
        keys = len(self.base.probabilities)
        newcomer = keys
        match self.kind:
            case "swap":
                late = when >= self.at
                top, middle = late & (ranks == 0), late & (ranks == keys // 2)
                ranks[top], ranks[middle] = keys // 2, 0
            case "move":
                ranks[(when >= self.at) & (ranks == 0)] = newcomer
            case "appear" | "fade":
                share = self.share * self._risen(when)
                if self.kind == "fade":
                    share = self.share - share
                ranks[np.random.default_rng([seed, number, _COINS]).random(n) < share] = newcomer
        return keys_of(ranks)

    def _risen(self, when: Floats) -> Floats:
        """How much of the change has happened, 0 to 1."""
        if self.over == 0:
            return np.asarray(when >= self.at, np.float64)
        return np.clip((when - self.at) / self.over, 0.0, 1.0)
