"""Decodes Kafka records from Spark into the lines in them (`RECORDS`), without a loop over lines.

Every record has an identity, (host, src_file, src_offset), in three headers, and a fourth that proves it. A
record that lacks one of the three, or whose `src_offset` is not a decimal number, was not collected from a
file: it is one line. Its identity is its place in Kafka: host ``kafka``, file ``<topic>/<partition>``, and
the Kafka offset. So it, too, is counted once. A forged record has its place in Kafka, too, and is a dead
letter.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.runtime.arrays import Ints
from sluice.transmission.blocks import proved, split
from sluice.transmission.identity import NAMES, identities
from sluice.transmission.records import HOST, IDENTITY, LINE_IN_RECORD, RECORDS, SRC_FILE, SRC_OFFSET

#: What the speed layer selects from Spark's Kafka source (`includeHeaders`).
KAFKA_COLUMNS = ("partition", "offset", "arrival", "headers", "line")
KAFKA_HOST = "kafka"


def decode(batch: pa.RecordBatch, key: bytes) -> Iterator[pa.RecordBatch]:
    """`RECORDS` of a batch with `KAFKA_COLUMNS`; missing parts of an identity are null.

    A batch of few long records may have very many lines, so they come in several batches (`blocks.split`).
    """
    line = pc.fill_null(batch.column("line"), b"")  # a record without a value is an empty line
    columns = {
        "partition": batch.column("partition").cast(pa.int32()),
        "offset": batch.column("offset").cast(pa.int64()),
        "arrival": batch.column("arrival").cast(pa.int64()),
        "line": line,
        LINE_IN_RECORD: pa.array(np.zeros(len(batch), np.int32)),
    }
    columns |= identities({name: _header(batch.column("headers"), name) for name in NAMES}, line, key)
    yield from split(pa.RecordBatch.from_arrays([columns[name] for name in RECORDS.names], schema=RECORDS))


def identify(records: pa.RecordBatch, topic: str) -> tuple[pa.RecordBatch, Ints]:
    """The records, each with an identity, and where each ends in its file (exclusive).

    A collected line ends at src_offset + its bytes + its newline. A line identified by its Kafka offset spans
    one offset.
    """
    host, src_file, src_offset = (records.column(name) for name in IDENTITY)
    known = proved(records)
    lengths = pc.binary_length(records.column("line")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if known.all():
        return records, src_offset.to_numpy(zero_copy_only=False) + lengths + 1
    place = pc.binary_join_element_wise(topic, records.column("partition").cast(pa.string()), "/")
    own = pa.array(known)
    filled = {
        HOST: pc.if_else(own, host, KAFKA_HOST),
        SRC_FILE: pc.if_else(own, src_file, place),
        SRC_OFFSET: pc.if_else(own, src_offset, records.column("offset")),
    }
    whole = pa.RecordBatch.from_arrays(
        [filled.get(name, records.column(name)) for name in RECORDS.names], schema=RECORDS
    )
    starts = whole.column(SRC_OFFSET).to_numpy(zero_copy_only=False)
    spans = np.where(known, lengths + 1, 1)
    return whole, starts + spans


def _header(headers: pa.ListArray, name: str) -> pa.Array:
    """Each record's first header of that name, as a binary value; null where it is missing."""
    pairs = headers.flatten()
    keys, values = pairs.field(0), pairs.field(1)
    here = pc.equal(keys, name).fill_null(False).to_numpy(zero_copy_only=False)
    at = np.flatnonzero(here)
    records = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False)[at]
    if len(at) == len(headers) and np.array_equal(records, np.arange(len(headers))):
        return values.take(pa.array(at))  # the usual case: once in every record
    place = np.full(len(headers), -1, np.int64)
    place[records[::-1]] = at[::-1]
    return values.take(pa.array(place, mask=place < 0))
