"""The SQL endpoint's way to the results: a Python data source of Spark over `sluice.results.reader`.

Spark calls it for each statement: first in a planner's process (`pushFilters`, `partitions`), then in workers
(`read`). The class `sluice.sql.Results` of the endpoint gives it the table's options and the columns that a
statement needs (docs/decisions/0028-sql-over-both-layers.md). The reader is imported where it is used: Spark
also has processes that only find or create the source, and they stay small.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from sluice.results.layers import StoredLayers
    from sluice.sql.shares import Share
    from sluice.tasks.spec import ActiveTask

NAME = "sluice"
#: What each worker keeps of what it read. There may be several, and those that are idle end after a minute.
KEPT_BYTES = 64 << 20


class ResultsSource(DataSource):  # type: ignore[misc]  # PySpark is not typed here
    """Results of all tasks, or of the version of one that the options `task` (its id) and `version` name."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        from sluice.sql.columns import LONG

        return ", ".join(f"{name} {kind}" for name, kind, _ in LONG)

    def reader(self, schema: StructType) -> Reader:
        return Reader(self.options, schema.fieldNames())


class Reader(DataSourceReader):  # type: ignore[misc]
    """One scan of a statement."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        from sluice.sql.pushdown import ScanBounds

        task, version = options.get("task"), options.get("version")
        self.of = None if task is None or version is None else (int(task), int(version))
        self.columns = columns
        self.asked = ScanBounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Read less because of the filters; Spark applies all of them again."""
        from sluice.sql.pushdown import asked

        self.asked = asked(filters)
        return filters

    def partitions(self) -> list[InputPartition]:
        """The statement's shares. The side of each period is decided here."""
        from sluice.sql.shares import shares

        asked, layers = self.asked, _layers()
        if asked.nothing:
            return []
        return [
            InputPartition(share)
            for task in self._tasks()
            for share in shares(task, layers.sides(task, asked.since, asked.until), asked.since, asked.until)
        ]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a share; None means that there are none."""
        if partition is not None:
            yield from self._rows(partition.value)

    def _rows(self, share: Share) -> Iterator[pa.RecordBatch]:
        from sluice.results.query import Query
        from sluice.results.reader import read
        from sluice.sql import columns

        spec = share.task.spec
        metrics = (
            tuple(name for name in spec.metrics if self.asked.may_be("metric", name))
            if self.of is None
            else columns.shown(share.task, self.columns)
        )
        if not metrics:
            return
        names = [] if self.of is None else [each.name for each in spec.dimensions]
        query = Query(
            tasks=(spec.name,),
            version=share.task.version,
            since=share.since,
            until=share.until,
            metrics=metrics,
            where=self.asked.where(names),
        )
        (answer,) = read(share.of(_layers()), query)
        for batch in answer.batches():
            if self.of is None:
                yield from columns.values(batch, share.task, metrics, self.columns)
            else:
                yield columns.typed(batch, self.columns)

    def _tasks(self) -> Iterator[ActiveTask]:
        """The versions that are asked for."""
        from sluice.runtime.settings import Settings
        from sluice.storage.postgres import engine
        from sluice.tasks.store import TaskStore

        store = TaskStore(engine(Settings()))
        if self.of is not None:
            yield store.version(*self.of)
            return
        for task in store.list():
            if self.asked.may_be("task", task.name):
                for version in range(1, task.version + 1):
                    if self.asked.may_be("version", version):
                        yield store.version(task.task_id, version)


@functools.cache
def _layers() -> StoredLayers:
    """This process's layers: workers read many shares, and keep their connections."""
    from sluice.metrics import load_team
    from sluice.results.layers import LayerBounds, StoredLayers
    from sluice.runtime.settings import Settings

    load_team()
    return StoredLayers(Settings(), LayerBounds().within(KEPT_BYTES))
