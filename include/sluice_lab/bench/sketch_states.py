"""States of many series' sketches: our kernels against DataSketches, one object a series."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa

from sluice.metrics.base import Accumulator, Batch, Numbers
from sluice.metrics.quantile import KLL
from sluice.metrics.texts import Texts
from sluice.metrics.top import HEAVY
from sluice.metrics.unique import HLL
from sluice.runtime.arrays import Floats, Ints
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table
from sluice_lab.bench.timing import interleaved, median, ratio

NAME = "sketch_states"
SMALL = 10
#: (series, lines a series): many small series, some medium ones, and few large ones.
SHAPES = ((20_000, SMALL), (200, 1_000), (4, 50_000))
QUICK_SHAPES = ((2_000, SMALL), (20, 1_000), (2, 10_000))
ROUNDS = 3
#: Times as fast: over all sketches and shapes, and for many small series, which most tasks have.
LIMIT, SMALL_LIMIT = 2.0, 1.5
REGISTERS, QUANTILE_K, ITEMS = 12, 400, 10  # 2^12 registers, k of KLL, 2^10 counters

WHAT = """\
A batch of lines and the states of the batch before: a state of each series is made of the batch, merged
with the one that stands, and written as bytes. `sluice` calls its kernels once for all series;
`datasketches` (the library's Python package) makes an object a series, with as many registers (2^12), the
same k (400) and 2^10 counters. Its KLL takes a series' values as one array, the other two a value at a
time: the package has no other way. Bytes are those of a merged state, on average."""


@dataclass(frozen=True)
class LineBatch:
    """A batch: the series of each line, ascending, and its measure."""

    groups: Ints
    size: int
    values: Floats

    @classmethod
    def made(cls, series: int, each: int, seed: int) -> LineBatch:
        """`each` lines per series, with measures from a long-tailed distribution."""
        values = np.floor(np.random.default_rng(seed).lognormal(7.0, 1.5, series * each))
        return cls(np.repeat(np.arange(series), each), series, values)

    def parts(self) -> list[Floats]:
        """The measures of each series."""
        return np.split(self.values, np.flatnonzero(np.diff(self.groups)) + 1)

    @cached_property
    def encoded(self) -> pa.DictionaryArray:
        """The measures as texts, in the form in which extraction leaves them for all tasks."""
        return pa.array(self.values.astype(np.int64)).cast(pa.string()).dictionary_encode()

    def batch(self) -> Batch:
        """A batch of which nothing is computed yet."""
        texts = Texts(np.asarray(self.encoded.indices, np.int64), self.encoded.dictionary)
        return Batch(self.groups, self.size, Numbers(self.values), texts=texts)


def run(quick: bool = False) -> Outcome:
    figures: dict[int, list[float]] = {}
    rates: list[list[Cell]] = []
    for series, each in QUICK_SHAPES if quick else SHAPES:
        before, lines = LineBatch.made(series, each, 1), LineBatch.made(series, each, 2)
        for accumulator, theirs in ((KLL, _quantiles), (HLL, _distinct), (HEAVY, _frequent)):
            figure, row = _compare(accumulator, theirs, before, lines, 1 if quick else ROUNDS)
            figures.setdefault(each, []).append(figure)
            rates.append([f"{accumulator.name}, {series:,} x {each:,}", figure, *row])
    bars = [
        Bar("times as fast, all sketches and shapes (geometric mean)", _mean(figures.values()), LIMIT),
        Bar("times as fast, series of 10 lines (geometric mean)", _mean([figures[SMALL]]), SMALL_LIMIT),
    ]
    ways = ["sluice ms", "datasketches ms", "sluice bytes", "datasketches bytes"]
    table = Table("Time and size", ["sketch, series x lines", "times as fast", *ways], rates)
    return Outcome(NAME, WHAT, bars, [table], quick=quick)


def _mean(figures: Iterable[Sequence[float]]) -> float:
    return statistics.geometric_mean(each for some in figures for each in some)


def _compare(
    accumulator: Accumulator,
    theirs: Callable[[Sequence[Floats], Sequence[bytes]], list[bytes]],
    before: LineBatch,
    lines: LineBatch,
    rounds: int,
) -> tuple[float, list[Cell]]:
    """How many times as fast our way is, and both ways' milliseconds and bytes per series."""
    stand = accumulator.add(before.batch())
    theirs_stand = theirs(before.parts(), [])
    kept: dict[str, list[int]] = {}
    parts = lines.parts()

    def ours() -> None:
        made = accumulator.add(lines.batch())
        both = {name: pa.concat_arrays([stand[name], made[name]]) for name in made}
        groups = np.tile(np.arange(lines.size), 2)
        merged = accumulator.merge(both, groups, lines.size)
        kept["sluice"] = [len(each) for each in merged[accumulator.name].to_pylist()]

    def others() -> None:
        kept["datasketches"] = list(map(len, theirs(parts, theirs_stand)))

    times = interleaved({"sluice": ours, "datasketches": others}, rounds, NAME, warm=1)
    row: list[Cell] = [median(times, name) * 1000 for name in times]
    return ratio(times, "datasketches", "sluice"), [*row, *(float(np.mean(kept[name])) for name in times)]


def _quantiles(parts: Sequence[Floats], stand: Sequence[bytes]) -> list[bytes]:
    found = []
    for number, values in enumerate(parts):
        sketch = datasketches.kll_doubles_sketch(QUANTILE_K)
        sketch.update(values)
        if stand:
            sketch.merge(datasketches.kll_doubles_sketch.deserialize(stand[number]))
        found.append(bytes(sketch.serialize()))
    return found


def _distinct(parts: Sequence[Floats], stand: Sequence[bytes]) -> list[bytes]:
    found = []
    for number, values in enumerate(parts):
        sketch: Any = datasketches.hll_sketch(REGISTERS)
        for value in values.astype(np.int64).tolist():
            sketch.update(value)
        if stand:
            union = datasketches.hll_union(REGISTERS)
            union.update(datasketches.hll_sketch.deserialize(stand[number]))
            union.update(sketch)
            sketch = union.get_result(datasketches.tgt_hll_type.HLL_8)
        found.append(bytes(sketch.serialize_compact()))
    return found


def _frequent(parts: Sequence[Floats], stand: Sequence[bytes]) -> list[bytes]:
    found = []
    for number, values in enumerate(parts):
        sketch = datasketches.frequent_strings_sketch(ITEMS)
        texts, counts = np.unique(values.astype(np.int64), return_counts=True)
        for text, count in zip(map(str, texts.tolist()), counts.tolist(), strict=True):
            sketch.update(text, count)
        if stand:
            sketch.merge(datasketches.frequent_strings_sketch.deserialize(stand[number]))
        found.append(bytes(sketch.serialize()))
    return found
