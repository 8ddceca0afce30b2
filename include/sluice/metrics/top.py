"""The most frequent measures: top1 to top100, exact while a series has few different ones."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.metrics.base import Accumulator, Batch, Columns, Metric, Results
from sluice.metrics.packed import Damaged, binary, buffers
from sluice.runtime.arrays import Bytes, Ints

NAME = re.compile(r"top([1-9]\d?|100)")
#: The characters that JSON does not take as they are.
_ESCAPED = r'["\\\x00-\x1f]'


class Heavy(Accumulator):
    """The most frequent measures with counts; all top-k of a series share it (`kernels.heavy`)."""

    name = "heavy"

    def __init__(self) -> None:
        self.columns = {"heavy": pa.binary()}

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        from sluice.metrics.kernels import heavy

        texts = batch.text.short
        data, ends = heavy.add(*buffers(texts.distinct), texts.hashes, batch.pairs)
        return {"heavy": binary(data, ends)}

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        from sluice.metrics.kernels import heavy
        from sluice.metrics.kernels.row_groups import by_group

        data, ends, sound = heavy.merge(*buffers(columns["heavy"]), *by_group(groups, size))
        if not sound:
            raise Damaged("heavy")
        return {"heavy": binary(data, ends)}


HEAVY = Heavy()


class TopK(Metric):
    """The `k` most frequent measures with counts, the most frequent first, ties by text."""

    accumulators = (HEAVY,)
    measure = "any"
    tolerance = 0.0
    sketched = True

    def __init__(self, k: int) -> None:
        self.name, self._k = f"top{k}", k

    @classmethod
    def named(cls, name: str) -> TopK | None:
        """The top-k of that name; None if no top-k has it."""
        found = NAME.fullmatch(name)
        return cls(int(found[1])) if found else None

    def results(self, columns: Columns) -> Results:
        """Texts like ``[["/a",12],["/b",3]]``; the value is the first count.

        The value is 0 if no measure is frequent enough; a series without any measure has no value. The error
        is a number of lines: each count is too low by at most that. A measure that is not in the list has at
        most the list's last count and the error together.
        """
        from sluice.metrics.kernels import heavy

        data, bounds = buffers(columns["heavy"])
        ends, froms, tos, counts, errors, sound = heavy.top(data, bounds, self._k)
        if not sound:
            raise Damaged("heavy")
        there, listed = errors >= 0, np.diff(ends) > 0
        values = np.where(there, 0.0, np.nan)
        values[listed] = counts[ends[:-1][listed]]
        entries = pc.binary_join_element_wise(
            _strings(data, froms, tos), pa.array(counts).cast(pa.string()), ","
        )
        entries = pc.binary_join_element_wise("[", entries, "]", "")
        lists = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), entries)
        texts = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
        return Results(
            values,
            texts=pc.if_else(pa.array(there), texts, pa.scalar(None, pa.string())),
            errors=np.maximum(errors, 0).astype(np.float64),
        )


def _strings(data: Bytes, froms: Ints, tos: Ints) -> pa.Array:
    """The texts data[from:to] as JSON strings."""
    from sluice.metrics.kernels.row_groups import gather

    found, bounds = gather(data, froms, tos)
    texts = pa.Array.from_buffers(
        pa.string(),
        len(froms),
        [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(found)],
    )
    quoted = pc.binary_join_element_wise('"', texts, '"', "")
    special = pc.match_substring_regex(texts, _ESCAPED)
    if not pc.any(special).as_py():
        return quoted
    escaped = [json.dumps(text, ensure_ascii=False) for text in texts.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, special, pa.array(escaped, pa.string()))
