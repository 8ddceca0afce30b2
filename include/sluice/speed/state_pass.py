"""The second stage of a batch: tasks merge partial aggregates into blocks of state and write them to HBase.

Each task has blocks of its own (`state.dealing`) and connections of its own. What it writes counts once the
driver commits the attempt's token. It returns the names of what it changed, never a series.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sluice.engine.merge import merge_guarded
from sluice.engine.set_aside import Failures, TasksFailed, Version, to_table
from sluice.engine.wire import (
    DAMAGED,
    FAILED,
    FOUND,
    KEYS,
    LOST,
    OLD,
    OUTGROWN,
    PARTIAL,
    STATE,
    STATED,
    rows_of,
)
from sluice.runtime.settings import Settings
from sluice.speed.routed.learning import learnt
from sluice.state.blocks import BlockId, periods
from sluice.state.damage import DAMAGE, damaged
from sluice.state.merging import Changes, Touch, merge_into_blocks
from sluice.state.state import AttemptState
from sluice.storage.hbase import HBase
from sluice.storage.postgres import engine_at
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.epochs import CommittedColumns, PeriodKey, StatePeriod
from sluice.storage.tables.recounts import Recounts

#: A block over this is not written: HBase takes no cell over 10 MiB.
MOST_CELL = 8 << 20


class StateStores(Hashable, Protocol):
    """Where a task reads and writes state."""

    def hbase(self) -> HBase: ...

    def log(self, topic: str) -> CommitLog: ...

    def recounts(self, topic: str) -> Recounts: ...


@dataclass(frozen=True)
class Connections:
    """The addresses of HBase and PostgreSQL. Each thread of each process has a connection of its own."""

    host: str
    port: int
    postgres: str = field(repr=False)  # it has the password
    authority: bytes = field(default=b"", repr=False)  # by it PostgreSQL's certificate is checked

    @classmethod
    def of(cls, settings: Settings) -> Connections:
        path = settings.postgres.root_certificate
        authority = Path(path).read_bytes() if path else b""
        return cls(settings.hbase.host, settings.hbase.port, settings.postgres.url(), authority)

    def hbase(self) -> HBase:
        return _hbase(self.host, self.port)

    def log(self, topic: str) -> CommitLog:
        return CommitLog(engine_at(self.postgres, self.authority), topic)

    def recounts(self, topic: str) -> Recounts:
        return Recounts(engine_at(self.postgres, self.authority), topic)


_own = threading.local()


def _hbase(host: str, port: int) -> HBase:
    """This thread's connection: in the driver, a writer must not wait for a projector's requests."""
    found: HBase | None = getattr(_own, "hbase", None)
    if found is None or (found.host, found.port) != (host, port):
        found = _own.hbase = HBase(host, port)
    return found


@dataclass(frozen=True)
class StatePass:
    """What a task of the last stage does; picklable.

    It merges the partial aggregates that were dealt to this task, and passes all other rows on.
    """

    stores: StateStores
    topic: str
    seq: int  # of the commit that is attempted
    token: str  # of the attempt
    readable: CommittedColumns
    series: int  # how many a period may have
    #: The periods that the driver knows, and those of them that are spread over all tasks.
    periods: Mapping[PeriodKey, StatePeriod] = field(default_factory=dict)
    spread: Collection[PeriodKey] = frozenset()
    large: Mapping[PeriodKey, int] = field(default_factory=dict)  # see `Touch`
    routed: Collection[Version] = frozenset()  # all their keys are named to the driver

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        pa.set_cpu_count(1)
        parts: list[pa.Table] = []
        for batch in batches:
            kinds = batch.column("kind").to_pylist()
            for kind, payload in zip(kinds, batch.column("payload"), strict=True):
                if kind == PARTIAL:
                    parts.append(pa.ipc.open_stream(payload.as_buffer()).read_all())
            others = batch.filter(pa.array([kind != PARTIAL for kind in kinds], pa.bool_()))
            if others.num_rows:
                yield others.select(FOUND.names)
        if parts:
            merged, failed = merge_guarded(pa.concat_tables(parts))
            yield rows_of(self._merge(merged, failed))

    def _merge(self, partials: pa.Table, failed: Failures) -> list[tuple[str, pa.Table]]:
        """Write the blocks; rows of FOUND say what was changed, or which versions failed."""
        log = self.stores.log(self.topic)
        keys = set(periods(partials)[0])
        known = {key: self.periods[key] for key in keys & self.periods.keys()}
        known |= log.periods(keys - known.keys())
        state = AttemptState(self.stores.hbase(), self.readable, self.seq, self.token, log.newest)
        state.know(known)
        try:
            changes = merge_into_blocks(
                partials,
                {key: period.layout for key, period in known.items()},
                state.load,
                self.series,
                touch=Touch(self.seq, state.seq, self.large),
                spread=self.spread,
            )
        except TasksFailed as error:
            failed |= error.failures
        except DAMAGE as error:
            return [(LOST, self._damaged(log, keys, error))]
        if failed:  # the batch is counted again without them: what is written now would be for nothing
            return [(FAILED, to_table(failed))]
        stated, late = self._stated(changes, known)
        state.write(
            {block: data for block, data in changes.blocks.items() if block.period not in late},
            {block: data for block, data in changes.deltas.items() if block.period not in late},
        )
        old = [
            {"row": block.row.encode(), "column": name}
            for block in changes.removed
            for name in state.columns(block)
        ]
        return [
            (STATE, stated),
            (OLD, pa.Table.from_pylist(old, schema=OUTGROWN)),
            (KEYS, learnt(partials, self.routed, self._shares(changes))),
        ]

    def _damaged(self, log: CommitLog, keys: Collection[PeriodKey], error: Exception) -> pa.Table:
        """DAMAGED: which of these periods cannot be read. Raises the error if all can, by now."""
        found = damaged(log, self.stores.hbase(), keys)
        if not found:
            raise error
        rows = [{**vars(each.of), "why": each.why} for each in found]
        return pa.Table.from_pylist(rows, schema=DAMAGED)

    def _shares(self, changes: Changes) -> dict[Version, float]:
        """Which part of the buckets of each version with spread periods is this task's."""
        own: Counter[Version] = Counter()
        every: Counter[Version] = Counter()
        for (*key, layout), blocks in Counter(block[:4] for block in changes.written).items():
            own[key[0], key[1]] += blocks
            every[key[0], key[1]] += layout if tuple(key) in self.spread else blocks
        return {version: blocks / every[version] for version, blocks in own.items()}

    def _stated(
        self, changes: Changes, known: Mapping[PeriodKey, StatePeriod]
    ) -> tuple[pa.Table, set[PeriodKey]]:
        """STATED, and the periods with a block that is too large to be written."""
        by_period: defaultdict[PeriodKey, dict[BlockId, int]] = defaultdict(dict)
        for block, data in changes.blocks.items():
            by_period[block.period][block] = len(data)
        for block in changes.deltas:
            by_period[block.period][block] = self.large[block.period]
        late = {key for key in changes.outgrown if max(by_period[key].values()) > MOST_CELL}
        rows: list[dict[str, Any]] = [
            {
                "task_id": key[0],
                "version": key[1],
                "period_start": key[2],
                "layout": next(iter(sizes)).layout,
                "since": known[key].since if key in known else self.seq,
                "blocks": len(sizes),
                "bytes": sum(sizes.values()),
                "widen": key in changes.outgrown,
                "late": key in late,
            }
            for key, sizes in by_period.items()
        ]
        return pa.Table.from_pylist(rows, schema=STATED), late
