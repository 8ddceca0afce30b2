"""A few samples of skipped lines are committed, and workers are told of which no more are needed."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa

from sluice.engine.outcomes import SAMPLES, TALLIES
from sluice.speed.samples import Samples

DAY = date(2015, 5, 17)
NUMBER = 16572  # of the day
TOUCHED = pa.Table.from_pylist([{"day": NUMBER}], TALLIES)


def sample(offset: int, task: int = 1) -> dict[str, Any]:
    return {"task_id": task, "version": 1, "kind": "unmatched", "day": DAY, "offset": offset}


def test_no_more_than_a_few_are_committed_over_all_batches() -> None:
    samples, taken = Samples({}), []
    for first in range(0, 12, 3):
        wanted = samples.wanted([sample(first + n) for n in range(3)])
        samples.committed(TOUCHED, wanted)
        taken += [each["offset"] for each in wanted]
    assert taken == list(range(SAMPLES))
    assert samples.complete == {(1, 1, "unmatched", NUMBER)}


def test_a_batch_that_is_not_committed_takes_no_ones_place() -> None:
    samples = Samples({})
    lost = samples.wanted([sample(n) for n in range(SAMPLES)])
    assert len(lost) == len(samples.wanted(lost)) == SAMPLES


def test_a_restart_knows_what_is_committed_and_other_days_are_not_named() -> None:
    samples = Samples({(1, 1, "unmatched", DAY): SAMPLES, (2, 1, "unmatched", date(2015, 5, 1)): SAMPLES})
    assert samples.wanted([sample(1)]) == []
    assert samples.complete == frozenset()
    samples.committed(TOUCHED, [])
    assert samples.complete == {(1, 1, "unmatched", NUMBER)}
