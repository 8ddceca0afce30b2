"""Where a reader gets periods from: final blocks, or the committed state with what was backfilled.

One transaction decides the side of each period (`storage.tables.finals.Sides`). A period that is published
after that still comes from the state, and a day that is published again still comes from the blocks that it
had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from sluice.results.answers import ANSWERS_BYTES, Answers
from sluice.results.opened import GROUPS_BYTES, Opened, OpenPeriods
from sluice.results.patience import PATIENCE_SECONDS
from sluice.results.sides import KnownSides
from sluice.results.values import VALUES_BYTES, StateColumns
from sluice.runtime.settings import Settings
from sluice.state.finals import CACHE_BYTES, FinalBlocks
from sluice.state.series import series_schema
from sluice.storage.hbase import HBase
from sluice.storage.postgres import engine
from sluice.storage.tables.finals import FinalBlock, Finals, Sides
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore, UnknownTask


class UnknownVersion(LookupError):
    """The task has no version of that number."""


class Layers(Protocol):
    """What the reader needs of the stores."""

    def task(self, name: str, version: int | None) -> ActiveTask: ...

    def sides(self, task: ActiveTask, since: int, until: int) -> Sides: ...

    def final(self, task: ActiveTask, blocks: Iterable[FinalBlock]) -> Iterator[pa.Table]: ...

    def open(self, task: ActiveTask, sides: Sides, starts: Sequence[int]) -> Opened: ...


@runtime_checkable
class Remembers(Protocol):
    """Layers that keep what readers made of what never changes; the reader works without, too."""

    @property
    def values(self) -> StateColumns: ...

    @property
    def answers(self) -> Answers: ...


class LayerBounds(NamedTuple):
    """How many bytes are kept of each kind."""

    blocks: int = CACHE_BYTES
    values: int = VALUES_BYTES
    groups: int = GROUPS_BYTES
    answers: int = ANSWERS_BYTES

    def within(self, most: int) -> LayerBounds:
        """The same shares of `most` bytes together."""
        return LayerBounds(*(each * most // sum(self) for each in self))


class StoredLayers:
    """The layers of an instance, with one connection to HBase. May be shared between threads.

    It keeps what was read last, and what was made of it, within `bounds`: 480 MiB, if nothing else is said.
    """

    def __init__(self, settings: Settings, bounds: LayerBounds | None = None) -> None:
        bounds = bounds or LayerBounds()
        self._settings = settings
        self._engine = engine(settings)
        self._hbase = HBase.of(settings, patience=PATIENCE_SECONDS)
        self._blocks = FinalBlocks(self._hbase, bounds.blocks)
        self._open = OpenPeriods(self._engine, self._hbase, bounds.groups)
        self._sides = KnownSides()
        self.values, self.answers = StateColumns(bounds.values), Answers(bounds.answers)

    def task(self, name: str, version: int | None) -> ActiveTask:
        """The task of that name, at its current version or the one asked for.

        Raises UnknownTask, UnknownVersion.
        """
        return find(self._settings, name, version)

    def sides(self, task: ActiveTask, since: int, until: int) -> Sides:
        finals = Finals(self._engine, task.spec.topic, PATIENCE_SECONDS)
        return self._sides.of(finals, (task.task_id, task.version), since, until)

    def final(self, task: ActiveTask, blocks: Iterable[FinalBlock]) -> Iterator[pa.Table]:
        for _, rows in self._blocks.read(blocks, series_schema(task)):
            yield rows

    def open(self, task: ActiveTask, sides: Sides, starts: Sequence[int]) -> Opened:
        return self._open.read(task, sides, starts)


class Settled:
    """Layers of one task with the sides of its periods fixed beforehand."""

    def __init__(self, layers: Layers, task: ActiveTask, sides: Sides) -> None:
        self._layers, self._task, self._sides = layers, task, sides
        if isinstance(layers, Remembers):
            self.values, self.answers = layers.values, layers.answers

    def task(self, name: str, version: int | None) -> ActiveTask:
        return self._task

    def sides(self, task: ActiveTask, since: int, until: int) -> Sides:
        return self._sides

    def final(self, task: ActiveTask, blocks: Iterable[FinalBlock]) -> Iterator[pa.Table]:
        return self._layers.final(task, blocks)

    def open(self, task: ActiveTask, sides: Sides, starts: Sequence[int]) -> Opened:
        return self._layers.open(task, sides, starts)


def find(settings: Settings, name: str, version: int | None = None) -> ActiveTask:
    """The task of that name, at its current version or at the one asked for.

    Raises UnknownTask, UnknownVersion.
    """
    store = TaskStore(engine(settings))
    try:
        task = store.get(name)
    except UnknownTask:
        known = ", ".join(each.name for each in store.list()) or "none: `sluice tasks apply` adds some"
        raise UnknownTask(f"there is no task {name!r}; the tasks are {known}") from None
    if version is not None and not 1 <= version <= task.version:
        raise UnknownVersion(f"task {name!r} has no version {version}: its versions are 1 to {task.version}")
    if version in (None, task.version) and not task.sets:  # as mostly: that was the version
        return ActiveTask(*task.key, task.spec)
    return store.version(task.task_id, version or task.version)
