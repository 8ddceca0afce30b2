"""The identity of every line (`RECORDS`), without a loop over lines.

Every record has an identity, (host, src_file, src_offset), in three headers, and a fourth that proves it. A
record that lacks one of the three, or whose `src_offset` is not a decimal number, was not collected from a
file: it is one line. Its identity is its place in Kafka: host ``kafka``, file ``<topic>/<partition>``, and
the Kafka offset. So it, too, is counted once. A forged record has its place in Kafka, too, and is a dead
letter.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.runtime.arrays import Ints
from sluice.transmission.blocks import proved
from sluice.transmission.records import HOST, IDENTITY, RECORDS, SRC_FILE, SRC_OFFSET

KAFKA_HOST = "kafka"


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
