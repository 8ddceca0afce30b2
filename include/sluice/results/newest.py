"""The newest numbers of a task: the total of one metric in its last periods."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.results.layers import Layers, Settled
from sluice.results.periods import ALWAYS
from sluice.results.query import Query, is_list
from sluice.results.reader import read
from sluice.results.rows import STATE
from sluice.storage.tables.finals import Sides
from sluice.tasks.period import parse_period
from sluice.tasks.spec import ActiveTask


@dataclass(frozen=True)
class Newest:
    """The total of `metric` in each of the last periods that have lines, oldest first."""

    metric: str
    starts: tuple[int, ...]  # ms since 1970
    values: tuple[float | int | None, ...]
    state: str  # of the last one


def newest_start(sides: Sides) -> int | None:
    """The start of the newest period that has results, in ms; None without any."""
    last = [block.last for each in sides.final for block in each.blocks]
    return max([*sides.open, *last], default=None)


def newest(layers: Layers, name: str, periods: int) -> Newest | None:
    """The newest numbers, over the last `periods` of the task's periods; None if there are none.

    Raises UnknownTask and what the stores raise.
    """
    task = layers.task(name, None)
    sides = layers.sides(task, ALWAYS.start, ALWAYS.stop)
    last = newest_start(sides)
    if last is None:
        return None
    since = last - (periods - 1) * parse_period(task.spec.period) * 1000
    return _read(layers, task, since, last + 1)


def _read(layers: Layers, task: ActiveTask, since: int, until: int) -> Newest | None:
    metric = next((each for each in task.spec.metrics if not is_list(each)), None)
    if metric is None:
        return None
    query = Query(tasks=(task.spec.name,), since=since, until=until, metrics=(metric,), dimensions=())
    pinned = Settled(layers, task, layers.sides(task, since, until))
    (answer,) = read(pinned, query)
    rows = answer.table()
    if not rows.num_rows:
        return None
    starts = [int(each) for each in rows.column("period").cast("int64").to_pylist()]
    return Newest(
        metric, tuple(starts), tuple(rows.column(metric).to_pylist()), rows.column(STATE)[-1].as_py()
    )
