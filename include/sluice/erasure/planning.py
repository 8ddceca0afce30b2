"""Which files of the archive have lines that are to be erased, and which copy of each line came first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.archive import index
from sluice.archive.claim import Claims
from sluice.archive.contents import as_records
from sluice.archive.file import ArchivedPartition
from sluice.erasure.copies import ErasedCopies
from sluice.erasure.matching import ErasedValue
from sluice.runtime.days import DAY_MS
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsFile
from sluice.transmission.redacted import are_redacted

#: Lines that are looked at at a time.
LINES = 32_768
#: What a plan counts, in the order in which it says it.
_PARTS = ("lines", "first copies", "dead letters")


@dataclass(frozen=True)
class PlannedFile:
    """A file of the archive that has lines to be erased."""

    place: ArchivedPartition
    file: HdfsFile


class ErasurePlan:
    """What an erasure finds in the archive.

    Redacted lines are copies, too, whichever erasure did that: of a line that came again since, the copy that
    was counted may be among them.
    """

    def __init__(self, settings: Settings, topic: str, value: ErasedValue) -> None:
        self._settings, self._topic, self._value = settings, topic, value
        self.copies = ErasedCopies(topic)
        self.files: list[PlannedFile] = []
        self._found: Counter[str] = Counter()
        self._days: set[int] = set()

    def look(self, place: ArchivedPartition, claims: Claims, files: dict[int, HdfsFile]) -> None:
        """Read the files of a partition that may have such lines. Raises what HDFS raises."""
        for first in self._readable(place):
            if (file := files.get(first)) and self._has_some(place, claims.opened(file)):
                self.files.append(PlannedFile(place, file))

    def _readable(self, place: ArchivedPartition) -> Iterator[int]:
        """The first offsets of the files that may have such lines, by what the index says."""
        ends = {place.partition: self._value.cut.get(place.partition, 0)}
        for row in index.files_for(self._settings, self._topic, None, ends):
            asked = row.unparsed or any(self._value.has_day(day) for day in row.days)
            if row.topic_id == place.topic_id and asked:
                yield row.first

    def _has_some(self, place: ArchivedPartition, opened: pa.NativeFile) -> bool:
        before = self._found["lines"]
        with pq.ParquetFile(opened) as file:
            for batch in file.iter_batches(LINES, use_threads=False):
                self._add(as_records(batch, place.partition))
        return self._found["lines"] > before

    def _add(self, records: pa.RecordBatch) -> None:
        judged = self._value.judge(records)
        rows = np.flatnonzero(judged.chosen)
        self.copies.add(records.take(pa.array(rows)))
        for others in (judged.elsewhere, are_redacted(records)):
            self.copies.add(records.filter(pa.array(others)), erasing=False)
        self._found.update({"lines": len(rows), "dead letters": int(judged.dead[rows].sum())})
        self._days.update((judged.event_ms[rows[judged.timed[rows]]] // DAY_MS).tolist())

    def __str__(self) -> str:
        found = self._found | {"first copies": len(self.copies)}
        parts = ", ".join(f"{found[name]:,} {name}" for name in _PARTS)
        return f"{parts}; {len(self.files):,} files of the archive, {len(self._days):,} days of event time"
