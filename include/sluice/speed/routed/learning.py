"""What the driver learns of a batch's keys without seeing them all.

A task's most frequent keys are named, and of the others there are only sums. So the driver's work does not
grow with the number of series. If a task's keys are spread over several tasks of the state, each of these
names a part of them. A task that is routed has all keys named, because its plan needs them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.set_aside import Version, versions_of
from sluice.metrics import accumulator_columns
from sluice.runtime.arrays import Ints

#: How many keys of a version are named; `hot_keys` has room for fewer.
NAMED = 512
#: How many are named at least of those that one task of the state has.
LEAST_NAMED = 16
#: The bytes of a state that is a number.
_NUMBER_BYTES = 8

#: A key of a task version, or all keys that are not named (null). groups: its series, each counted once a
#: period. lines: its tuples. bytes: of its states. most: the most tuples that one of its keys has.
LEARNT = pa.schema(
    [
        ("task_id", pa.int32()),
        ("version", pa.int32()),
        ("key", pa.string()),
        ("groups", pa.int64()),
        ("lines", pa.int64()),
        ("bytes", pa.int64()),
        ("most", pa.int64()),
    ]
)


def learnt(
    partials: pa.Table, whole: Collection[Version] = (), shares: Mapping[Version, float] | None = None
) -> pa.Table:
    """LEARNT of a batch's PARTIALS. All keys of the versions in `whole` are named.

    shares: which part of a version's keys is here, where others have the rest; any part is as good as random.
    """
    if not partials.num_rows:
        return LEARNT.empty_table()
    read = partials.select(["task_id", "version", "key", "lines"])
    read = read.append_column("bytes", pa.array(_state_bytes(partials)))
    grouped = read.group_by(["task_id", "version", "key"], use_threads=False)
    keys = grouped.aggregate([([], "count_all"), ("lines", "sum"), ("bytes", "sum")])
    keys = keys.rename_columns(
        {"count_all": "groups", "lines_sum": "lines", "bytes_sum": "bytes"}
    ).append_column("most", keys.column("lines_sum"))
    shares = shares or {}
    return pa.concat_tables(
        own if version in whole else _shortened(own, shares.get(version, 1.0))
        for version, own in versions_of(keys.select(LEARNT.names).cast(LEARNT))
    )


def _shortened(keys: pa.Table, share: float) -> pa.Table:
    """One version's LEARNT with its most frequent keys named."""
    named = max(LEAST_NAMED, math.ceil(NAMED * share)) if share < 1 else NAMED
    if keys.num_rows <= named:
        return keys
    order = pc.sort_indices(keys, [("lines", "descending")])
    rest = keys.take(order.slice(named))
    sums = {name: [pc.sum(rest.column(name)).as_py()] for name in ("groups", "lines", "bytes")}
    names = {name: rest.column(name).slice(0, 1) for name in ("task_id", "version")}
    one = {**names, "key": [None], **sums, "most": [pc.max(rest.column("most")).as_py()]}
    return pa.concat_tables([keys.take(order.slice(0, named)), pa.table(one, schema=LEARNT)])


def _state_bytes(partials: pa.Table) -> Ints:
    """Bytes of each row's states."""
    total = np.zeros(partials.num_rows, np.int64)
    for name in accumulator_columns():
        column = partials.column(name)
        if column.null_count == len(column):
            continue
        if pa.types.is_binary(column.type):
            total += np.asarray(pc.binary_length(column).fill_null(0), np.int64)
        else:
            total += _NUMBER_BYTES * np.asarray(column.is_valid(), np.int64)
    return total
