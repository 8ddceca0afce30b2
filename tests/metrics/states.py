"""Lines become states and states become values, as in the engine, to test single metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.metrics import (
    Batch,
    Numbers,
    Results,
    Texts,
    accumulator_columns,
    accumulators,
    all_accumulators,
    metric,
)
from sluice.traffic import generate

Columns = dict[str, pa.Array]


def numeric(groups: Any, values: Any, size: int, rows: Any = None) -> Batch:
    """A batch of numbers, NaN where the measure is missing, that reads as text as well."""
    floats = np.asarray(values, np.float64)
    encoded = pa.array(["-" if math.isnan(v) else repr(v) for v in floats.tolist()]).dictionary_encode()
    codes = np.asarray(encoded.indices, np.int64)
    texts = Texts(codes, encoded.dictionary.cast(pa.string()))
    return Batch(np.asarray(groups, np.int64), size, Numbers(floats), rows, texts)


def textual(groups: Any, values: Sequence[str | None] | pa.Array, size: int, rows: Any = None) -> Batch:
    """A batch of texts, None where nothing was extracted."""
    encoded = pa.array(values, pa.string()).dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    texts = Texts(codes.astype(np.int64), encoded.dictionary)
    return Batch(np.asarray(groups, np.int64), size, None, rows, texts)


def added(batch: Batch, *metrics: str) -> Columns:
    """The states of what these metrics need; the other columns null."""
    own = {name: column for a in accumulators(metrics) for name, column in a.add(batch).items()}
    return {name: own.get(name, pa.nulls(batch.size, kind)) for name, kind in accumulator_columns().items()}


def merged(size: int, *parts: Columns) -> Columns:
    """States of the same groups, merged at once."""
    groups = np.tile(np.arange(size), len(parts))
    stacked = {name: pa.concat_arrays([p[name] for p in parts]) for name in accumulator_columns()}
    own: Columns = {}
    for accumulator in all_accumulators().values():
        given = {name: stacked[name] for name in accumulator.columns}
        if any(column.null_count < len(column) for column in given.values()):
            own |= accumulator.merge(given, groups, size)
    return {name: own.get(name, pa.nulls(size, kind)) for name, kind in accumulator_columns().items()}


def results(columns: Columns, name: str) -> Results:
    return metric(name).results(columns)


def values(columns: Columns, name: str) -> list[Any]:
    """The metric's value per group: an int where it is exact, a list for lists, None for none."""
    found = results(columns, name)
    answer: list[Any] = []
    for n, value in enumerate(found.values.tolist()):
        if math.isnan(value):
            answer.append(None)
        elif found.texts is not None:
            answer.append(json.loads(found.texts[n].as_py()))
        elif found.exact is not None and found.integers is not None and found.exact[n]:
            answer.append(int(found.integers[n]))
        else:
            answer.append(value)
    return answer


def errors(columns: Columns, name: str) -> list[float]:
    found = results(columns, name).errors
    assert found is not None
    return found.tolist()


def splits(count: int, parts: int, random: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """The numbers below `count` in `parts` parts of unequal sizes."""
    order = random.permutation(count)
    return np.split(order, np.sort(random.integers(0, count + 1, parts - 1)))


def access_lines(lines: int, seed: int = 1) -> pa.Table:
    """A made-up access log's columns: client, path, status, and bytes (a text, or "-")."""
    return columns_of(b"".join(generate.batches(lines, seed=seed, days=1)).decode().splitlines())


def columns_of(lines: Sequence[str]) -> pa.Table:
    """The same columns of a given access log."""
    fields = pc.split_pattern(pa.array(lines), " ")
    columns = (("client", 0), ("path", 6), ("status", 8), ("bytes", 9))
    return pa.table({name: pc.list_element(fields, at) for name, at in columns})
