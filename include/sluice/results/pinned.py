"""The layers with the sides of one query's periods decided once, and a tag that names what is read.

The tag is made of the query, the task's version, the publications and backfills of the periods that were
asked for, and the newest commit if any of them is open. It is known before a block is read. What comes from
final blocks is pinned by the sides. What comes from the state is of the tag only if no commit came before it
was read: `holds` says so afterwards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from importlib.metadata import version

import pyarrow as pa

from sluice.metrics import load_team
from sluice.results.layers import Layers, Opened
from sluice.results.query import Query
from sluice.results.reader import ALWAYS
from sluice.storage.finals import FinalBlock, Sides
from sluice.tasks.spec import ActiveTask


class Pinned:
    """Layers for one query of one task. Raises UnknownTask, UnknownVersion and BadQuery at once."""

    def __init__(self, layers: Layers, query: Query) -> None:
        self.of = layers.task(query.tasks[0], query.version)
        query.check(self.of)
        self._layers, self._query = layers, query
        self._commit, self._sides = self._now()

    @property
    def is_final(self) -> bool:
        """Whether the answer comes from final blocks alone."""
        return not self._sides.open

    def tag(self, *more: str) -> str:
        """A name of the answer that no other answer has; `more` says how it is written."""
        return _tag(self._query, self.of, self._commit, self._sides, more)

    def holds(self) -> bool:
        """Whether nothing changed since the sides were decided, so what was read is of the tag."""
        return self.is_final or _tag(self._query, self.of, *self._now(), ()) == self.tag()

    def task(self, name: str, version: int | None) -> ActiveTask:
        return self.of

    def newest(self, task: ActiveTask) -> int:
        return self._commit

    def sides(self, task: ActiveTask, since: int, until: int) -> Sides:
        return self._sides

    def final(self, task: ActiveTask, blocks: Iterable[FinalBlock]) -> Iterator[pa.Table]:
        return self._layers.final(task, blocks)

    def open(self, task: ActiveTask, sides: Sides, starts: Sequence[int]) -> Opened:
        return self._layers.open(task, sides, starts)

    def _now(self) -> tuple[int, Sides]:
        since = ALWAYS.start if self._query.since is None else self._query.since
        until = ALWAYS.stop if self._query.until is None else self._query.until
        # The commit comes first: if it is still the newest after the read, the sides are as of it, too.
        return self._layers.newest(self.of), self._layers.sides(self.of, since, until)


def _tag(query: Query, task: ActiveTask, commit: int, sides: Sides, more: Sequence[str]) -> str:
    named = [
        version("sluice"),
        load_team().digest,  # a team's metric may compute otherwise after a change
        *more,
        query.model_dump_json(),
        task.label,
        task.spec.model_dump_json(),
        [[each.first, each.until, each.run_id, [b.row for b in each.blocks]] for each in sides.final],
        sorted(sides.superseded),
        sides.open,
        [astuple(sides.state[start]) for start in sorted(sides.state)],
        [[pointer.row, pointer.column] for start in sorted(sides.filled) for pointer in sides.filled[start]],
        commit if sides.open else None,
    ]
    return hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()
