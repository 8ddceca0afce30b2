"""Of the lines that are erased, which copy came first: the one that the layers counted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sluice.runtime.arrays import Bools
from sluice.transmission.line_identity import identify
from sluice.transmission.line_schema import IDENTITY, LINE_IN_RECORD

#: The order in which copies came.
_ARRIVED = ("arrival", "offset", LINE_IN_RECORD, "partition")

Line = tuple[str, str, int]
Arrival = tuple[int, int, int, int]


class ErasedCopies:
    """The first copy of each of these lines; holds some 300 bytes for each.

    Its length is how many of these are to be erased.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._first: dict[Line, Arrival] = {}
        self._others: set[Line] = set()  # those whose first copy is not to be erased
        self._names: dict[str, str] = {}

    def add(self, lines: pa.RecordBatch, *, erasing: bool = True) -> None:
        """Take more copies (LINE_SCHEMA), in any order. erasing: they are to be erased; else they stay."""
        for line, arrival in self._named(lines):
            if (known := self._first.get(line)) is None or arrival < known:
                self._first[line] = arrival
                (self._others.discard if erasing else self._others.add)(line)

    def first(self, lines: pa.RecordBatch) -> Bools:
        """Which of these copies came first."""
        found = (self._first.get(line) == arrival for line, arrival in self._named(lines))
        return np.fromiter(found, bool, len(lines))

    def __len__(self) -> int:
        return len(self._first) - len(self._others)

    def _named(self, lines: pa.RecordBatch) -> Iterator[tuple[Line, Arrival]]:
        whole, _ = identify(lines, self._topic)
        hosts, files, starts = (whole.column(name).to_pylist() for name in IDENTITY)
        arrived = (whole.column(name).fill_null(0).to_pylist() for name in _ARRIVED)
        for host, file, start, *arrival in zip(hosts, files, starts, *arrived, strict=True):
            name = self._names.setdefault(file, file)
            yield (self._names.setdefault(host, host), name, start), tuple(arrival)
