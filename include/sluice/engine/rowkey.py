"""The names of series and of results (paper 002, 3.2.1): readable, and no two alike.

A result's row is ``taskid_dim1name_dim1value_..._dimNname_dimNvalue_metric_timestamp``. The paper joins the
parts with ``_`` as they are, so a value that contains a ``_`` can be taken for two parts. Here every part is
escaped (``%`` becomes ``%25``, ``_`` becomes ``%5F``), so no two names collide, and they stay readable.
``taskid`` is the task's id and version (``3v2``), ``timestamp`` the period's start in ms since the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


class BadRowKey(ValueError):
    """A key that no result is stored under."""


def escape(part: str) -> str:
    return part.replace("%", "%25").replace("_", "%5F")


def unescape(part: str) -> str:
    return part.replace("%5F", "_").replace("%25", "%")


def escape_column(column: pa.Array) -> pa.Array:
    return pc.replace_substring(pc.replace_substring(column, "%", "%25"), "_", "%5F")


def unescape_column(column: pa.Array) -> pa.Array:
    return pc.replace_substring(pc.replace_substring(column, "%5F", "_"), "%25", "%")


def series_key(values: Sequence[str]) -> str:
    """The `key` of PARTIALS: the dimension values, escaped and joined, in the task's order."""
    return "_".join(escape(v) for v in values)


def series_values(key: str, dimensions: int) -> list[str]:
    """The dimension values that `key` was made of."""
    return [unescape(part) for part in key.split("_")] if dimensions else []


def split_keys(keys: pa.Array, dimensions: int) -> list[pa.Array]:
    """The values of every dimension, still escaped, one column each."""
    if dimensions <= 1:
        return [keys] * dimensions
    parts = pc.list_flatten(pc.split_pattern(keys, "_"))
    if len(parts) != len(keys) * dimensions:
        raise BadRowKey(
            f"a series key does not have {dimensions} values: was it made by another task version?"
        )
    positions = pa.array(range(0, len(parts), dimensions), pa.int64())
    return [parts.take(pc.add(positions, n)) for n in range(dimensions)]


def prefix(label: str, names: Sequence[str] = (), values: Sequence[str] = ()) -> bytes:
    """What the row keys of a task version begin with, or those of one of its series.

    A series is given by the names and values of its dimensions.
    """
    pairs = [p for pair in zip(names, values, strict=True) for p in pair]
    return ("_".join([label, *map(escape, pairs)]) + "_").encode()


@dataclass(frozen=True)
class RowKey:
    """The coordinates of one result."""

    task_id: int
    version: int
    dimensions: tuple[tuple[str, str], ...]  # (name, value), in the task's order
    metric: str
    period_start: int  # ms since the epoch

    def encode(self) -> bytes:
        names, values = [n for n, _ in self.dimensions], [v for _, v in self.dimensions]
        start = prefix(f"{self.task_id}v{self.version}", names, values)
        return start + f"{escape(self.metric)}_{self.period_start}".encode()

    @classmethod
    def decode(cls, row: bytes) -> RowKey:
        try:
            label, *parts = row.decode().split("_")
            *pairs, metric, period_start = map(unescape, parts)
            task_id, version = label.split("v")
            names, values = pairs[::2], pairs[1::2]
            return cls(
                int(task_id), int(version), tuple(zip(names, values, strict=True)), metric, int(period_start)
            )
        except ValueError:
            raise BadRowKey(
                f"{row!r} is no row of results: expected taskid_name_value_..._metric_timestamp"
            ) from None


def encode_column(
    label: str, names: Sequence[str], keys: pa.Array, metric: str, period_starts: pa.Array
) -> pa.Array:
    """Row keys (binary) of one task version's metric, from PARTIALS' `key` and `period_start`."""
    return encode_rows(encode_series(label, names, keys), escape(metric), period_starts.cast(pa.string()))


def encode_series(label: str, names: Sequence[str], keys: pa.Array) -> pa.Array:
    """How the row keys of one task version's series begin (string), from PARTIALS' `key`."""
    if not names:
        return pa.array([label], pa.string()).take(pa.nulls(len(keys), pa.int64()).fill_null(0))
    parts: list[pa.Scalar | pa.Array] = []
    literal = label
    for name, values in zip(names, split_keys(keys, len(names)), strict=True):
        parts += [pa.scalar(f"{literal}_{escape(name)}_"), values]
        literal = ""
    return pc.binary_join_element_wise(*parts, "")


def encode_rows(series: pa.Array, metrics: str | pa.Array, period_starts: pa.Array) -> pa.Array:
    """Row keys (binary) from their beginnings, the metrics' escaped names and the periods' texts."""
    return pc.binary_join_element_wise(series, metrics, period_starts, "_").cast(pa.binary())
