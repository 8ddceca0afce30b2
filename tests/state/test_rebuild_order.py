"""A period is counted again beside the speed layer, and its results are right in any order of their steps.

The steps are those of the speed layer's commits and projector (`speed.projection_pass`), and of a rebuild
(`batch.rebuild.rebuild`), which may die after any of them and is repeated. Each step is as indivisible as a
transaction of PostgreSQL or a cell of HBase. The functions that merge are the real ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.merge import merge
from sluice.engine.schema import partials_schema
from sluice.state.backfilled import Backfilled, apart, keys_of, onto, read_blocks
from sluice.state.blocks import periods
from tests.examples import examples
from tests.state.test_backfill_order import APART, Platform
from tests.state.test_backfilled import DAY, counted, fill, lines

pytestmark = pytest.mark.slow

#: Batches of the speed layer; before the first one of LATER, a block is lost.
EARLIER = [lines([1, 2]), lines([2, 3, 3])]
LATER = [lines([1, 3]), lines([4]), lines([2, 4]), lines([3])]
#: How many steps a rebuild has.
STEPS = 5


class Layers(Platform):
    """State, pointers, results and the set-aside list of one period."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[list[bytes]] = []
        self.listed = False
        self.cut: int | None = None  # of the rebuild that has begun
        self.switched = False

    def commit(self, text: list[bytes]) -> None:
        self.state = merge(pa.concat_tables([self.state, counted(text)]))
        self.head += APART
        self.commits.append(text)

    def lose(self) -> None:
        """A block is lost and found to be so: the period has no state any more."""
        self.listed, self.state = True, partials_schema().empty_table()


def speed(layers: Layers) -> Iterator[None]:
    """Commit; then read the list, the state, the pointers; then write."""
    backfilled = Backfilled(layers.book, layers.cells, "logs")  # type: ignore[arg-type]
    for text in LATER:
        layers.commit(text)
        stamp = layers.head
        yield
        listed = layers.listed
        yield
        if listed:
            continue
        touched = onto(keys_of(counted(text)), layers.state)
        yield
        whole, _ = backfilled.added(touched)
        yield
        layers.put(whole, stamp)
        yield


def rebuild(layers: Layers, number: int) -> Iterator[None]:
    """Begin, write blocks, switch, write the results; or what is left of it."""
    if layers.cut is None:
        layers.cut = len(layers.commits)
        layers.lose()
        yield
    if not layers.switched:
        own = counted([line for text in layers.commits[: layers.cut] for line in text])
        yield
        fill(layers.book, layers.cells, DAY, own, number)
        layers.listed, layers.switched = False, True
        yield
    stamp = layers.head + 1
    yield
    keys = set(periods(counted(EARLIER[0]))[0])
    blocks = read_blocks(layers.cells, layers.book.pointers(keys))  # type: ignore[arg-type]
    whole = merge(pa.concat_tables([layers.state, *apart(blocks)]))
    yield
    layers.put(whole, stamp)
    yield


def rebuilds(layers: Layers, deaths: list[int]) -> Iterator[None]:
    """A rebuild that dies several times; the last try ends."""
    for number, steps in enumerate(deaths, 1):
        for _, _ in zip(range(steps), rebuild(layers, number), strict=False):
            yield
    yield from rebuild(layers, len(deaths) + 1)


@examples(100)
@given(
    turns=st.lists(st.booleans(), max_size=60),
    deaths=st.lists(st.integers(0, STEPS), max_size=3),
    lost=st.booleans(),
)
def test_each_line_counts_once_whether_it_came_before_or_after_the_cut(
    turns: list[bool], deaths: list[int], lost: bool
) -> None:
    layers = Layers()
    for text in EARLIER:
        layers.commit(text)
        layers.put(layers.state, layers.head)
    if lost:
        layers.lose()
    actors = [speed(layers), rebuilds(layers, deaths)]
    for turn in turns:
        next(actors[turn], None)
    for actor in actors:  # finish those that are not through yet
        for _ in actor:
            pass
    whole = counted([line for text in (*EARLIER, *LATER) for line in text])
    expected = {row["key"]: {k: v for k, v in row.items() if k != "task_id"} for row in whole.to_pylist()}
    assert {key: row for key, (_, row) in layers.results.items()} == expected
