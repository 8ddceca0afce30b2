"""Which of a key's candidates takes this tuple.

A selection is a step (candidates, count, load, key) -> worker. `candidates[:count]` are the workers that may
take the key; if count is EVERY, all workers may. `load` is the source's view of its workers (`load`), or
anything else that a strategy selects by. The one routing loop is compiled with a selection (`routing`).
"""

from __future__ import annotations

import numpy as np

from sluice.grouping.base import Targets
from sluice.grouping.compiled import step
from sluice.grouping.load import SourceLoad, load_of

#: What an assignment returns instead of a count if every worker may take the key; no candidates are read
#: then.
EVERY = -1


@step
def only(candidates: Targets, count: int, load: SourceLoad, key: np.uint64) -> int:
    """The first candidate, for an assignment that gives just one."""
    return candidates[0]  # type: ignore[no-any-return]


@step
def least_loaded(candidates: Targets, count: int, load: SourceLoad, key: np.uint64) -> int:
    """The candidate with the least load, of equal ones the first.

    O(count), or O(workers) if count is EVERY.
    """
    if count == EVERY:
        return _least_of_all(load)
    best = int(candidates[0])
    least = load_of(load, best)
    for i in range(1, count):
        other = load_of(load, candidates[i])
        if other < least:
            best, least = int(candidates[i]), other
    return best


@step
def _least_of_all(load: SourceLoad) -> int:
    best = load.first
    least = load_of(load, best)
    for worker in range(load.first + 1, len(load.sent)):
        other = load_of(load, worker)
        if other < least:
            best, least = worker, other
    for worker in range(load.first):
        other = load_of(load, worker)
        if other < least:
            best, least = worker, other
    return best
