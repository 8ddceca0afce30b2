"""Which samples of skipped lines a topic still needs; `engine.outcomes` says what they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import pyarrow as pa

from sluice.engine.outcomes import SAMPLES, Sampled
from sluice.storage.tables.tallies import EPOCH

#: Task id, version, kind and day.
Key = tuple[int, int, str, date]


class Samples:
    """The number of samples that are committed; used by the topic's writer."""

    def __init__(self, committed: Mapping[Key, int]) -> None:
        self._committed = Counter(committed)
        #: What the next batch need not sample: of the newest batch's days, so it stays small.
        self.complete: Sampled = frozenset()

    def wanted(self, samples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Those of a batch's samples that are to be committed."""
        taken: Counter[Key] = Counter()
        wanted = []
        for each in samples:
            key = _key(each)
            if self._committed[key] + taken[key] < SAMPLES:
                taken[key] += 1
                wanted.append(each)
        return wanted

    def committed(self, tallies: pa.Table, samples: Sequence[Mapping[str, Any]]) -> None:
        """A batch with these TALLIES and samples was committed."""
        self._committed.update(_key(each) for each in samples)
        days = {EPOCH + timedelta(days=day) for day in tallies["day"].to_pylist()}
        if days:
            self.complete = frozenset(
                (*key[:3], (key[3] - EPOCH).days)
                for key, number in self._committed.items()
                if number >= SAMPLES and key[3] in days
            )


def _key(sample: Mapping[str, Any]) -> Key:
    return sample["task_id"], sample["version"], sample["kind"], sample["day"]
