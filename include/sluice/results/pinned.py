"""The layers with the sides of one query's periods decided once, and a tag that names what is read.

The tag is made of the query, the task's version, the publications and backfills of the periods that were
asked for, and the newest commit if any of them is open. It is known before a block is read. What comes from
final blocks is pinned by the sides. What comes from the state is of the tag only if no commit came before it
was read: `holds` says so afterwards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple
from importlib.metadata import version

from sluice.metrics import load_team
from sluice.results.layers import Layers, Settled
from sluice.results.periods import within
from sluice.results.query import Query
from sluice.storage.tables.finals import Sides
from sluice.tasks.spec import ActiveTask


class Pinned(Settled):
    """Layers for one query of one task. Raises UnknownTask, UnknownVersion and BadQuery at once."""

    def __init__(self, layers: Layers, query: Query) -> None:
        self.of = layers.task(query.tasks[0], query.version)
        query.check(self.of)
        self._query = query
        super().__init__(layers, self.of, _sides(layers, self.of, query))

    @property
    def is_final(self) -> bool:
        """Whether the answer comes from final blocks alone."""
        return not self._sides.open and not self._sides.recounted

    def tag(self, *more: str) -> str:
        """A name of the answer that no other answer has; `more` says how it is written."""
        return _tag(self._query, self.of, self._sides, more)

    def holds(self) -> bool:
        """Whether nothing changed since the sides were decided, so what was read is of the tag."""
        now = self._sides if self.is_final else _sides(self._layers, self.of, self._query)
        return _tag(self._query, self.of, now, ()) == self.tag()


def _sides(layers: Layers, task: ActiveTask, query: Query) -> Sides:
    starts = within(query.since, query.until)
    return layers.sides(task, starts.start, starts.stop)


def _tag(query: Query, task: ActiveTask, sides: Sides, more: Sequence[str]) -> str:
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
        sorted(sides.recounted),
        [astuple(sides.state[start]) for start in sorted(sides.state)],
        [[pointer.row, pointer.column] for start in sorted(sides.filled) for pointer in sides.filled[start]],
        sides.head if sides.open else None,
    ]
    return hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()
