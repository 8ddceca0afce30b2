"""The results that one layer stored, read by the same functions as for a reconciliation.

`results.reader` answers from accumulators instead, and takes each period from the layer that is right for it.
So these results are for those who look at one layer: reports, and people who search for a fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from enum import StrEnum
from typing import NamedTuple

import pyarrow as pa

from sluice.engine.rowkey import RowKey
from sluice.results.agreement import INTEGER
from sluice.results.offline_results import of_task
from sluice.results.online_results import online_results
from sluice.results.patience import PATIENCE_SECONDS
from sluice.results.periods import ALWAYS
from sluice.runtime.days import DAY_MS, begin_ms
from sluice.runtime.settings import Settings
from sluice.storage.hbase import HBase
from sluice.storage.hive import Hive
from sluice.storage.partitions import TASK_RESULTS, check_there
from sluice.storage.postgres import engine
from sluice.storage.tables.days import Days
from sluice.tasks.period import LONGEST
from sluice.tasks.spec import ActiveTask

Number = int | float
#: A list metric's value: what was counted most, with its counts.
RankedValues = list[list[str | Number]]
ResultValue = Number | RankedValues
#: A period's start in ms since the epoch, and the values of the dimensions.
Series = tuple[int, tuple[str, ...]]


class LayerResult(NamedTuple):
    """One stored result."""

    key: RowKey
    value: ResultValue
    error: float  # as the metric states it; 0: the value is exact

    @property
    def series(self) -> Series:
        return self.key.period_start, tuple(value for _, value in self.key.dimensions)


class ResultLayer(StrEnum):
    """The layer whose stored results are read."""

    ONLINE = "online"
    OFFLINE = "offline"


def layer_results(
    settings: Settings, task: ActiveTask, layer: ResultLayer, starts: range = ALWAYS
) -> pa.Table:
    """`ONLINE_RESULTS` or `OFFLINE_RESULTS` of the task's periods that begin in `starts` (ms).

    Raises DaysAbsent if a day is computed and its results are not there.
    """
    if layer == ResultLayer.OFFLINE:
        with Hive(settings) as hive:
            book = Days(engine(settings), task.spec.topic)
            touched = (day for day in book.computed() if _touches(day, starts))
            check_there(hive, book, touched, [TASK_RESULTS])
            return of_task(hive, task, starts)
    with HBase.of(settings, patience=PATIENCE_SECONDS) as hbase:
        return online_results(hbase, task, starts)


def _touches(day: date, starts: range) -> bool:
    """Whether a period that begins in `starts` (ms) may have lines of the day."""
    begin = begin_ms(day)
    return begin + DAY_MS > starts.start and begin < starts.stop + LONGEST * 1000


def each_result(found: pa.Table) -> Iterator[LayerResult]:
    """The rows of `ONLINE_RESULTS` or `OFFLINE_RESULTS`. Raises BadRowKey."""
    numbers = found.column("value").to_pylist() if "value" in found.column_names else [None] * len(found)
    columns = (found.column(name).to_pylist() for name in ("row", "text", "error"))
    for row, text, error, number in zip(*columns, numbers, strict=True):
        stated = error if error is not None and error > 0 else 0.0
        yield LayerResult(RowKey.decode(row), number if text is None else read_value(text), stated)


def read_value(text: str) -> ResultValue:
    """Read a value as the layers write it.

    An integer is written without a point, a list as JSON, anything else as repr(float).
    """
    if re.fullmatch(INTEGER, text):
        return int(text)
    if text.startswith("["):
        ranked: RankedValues = json.loads(text)
        return ranked
    return float(text)
