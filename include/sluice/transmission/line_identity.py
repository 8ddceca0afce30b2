"""The identity of every line (`LINE_SCHEMA`), without a loop over lines.

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
from sluice.transmission.line_schema import HOST, IDENTITY, LINE_SCHEMA, SRC_FILE, SRC_OFFSET

KAFKA_HOST = "kafka"
#: The host of replayed lines that came from no file (`letters.replayed_lines`). An inventory's names have no
#: colon.
REPLAYED_HOST = "kafka:replay"


def identify(lines: pa.RecordBatch, topic: str) -> tuple[pa.RecordBatch, Ints]:
    """The lines (LINE_SCHEMA), each with an identity, and where each ends in its file (exclusive).

    A collected line ends at src_offset + its bytes + its newline. A line identified by its Kafka offset spans
    one offset.
    """
    host, src_file, src_offset = (lines.column(name) for name in IDENTITY)
    known = proved(lines)
    lengths = pc.binary_length(lines.column("line")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if known.all():
        return lines, src_offset.to_numpy(zero_copy_only=False) + lengths + 1
    place = pc.binary_join_element_wise(topic, lines.column("partition").cast(pa.string()), "/")
    own = pa.array(known)
    filled = {
        HOST: pc.if_else(own, host, KAFKA_HOST),
        SRC_FILE: pc.if_else(own, src_file, place),
        SRC_OFFSET: pc.if_else(own, src_offset, lines.column("offset")),
    }
    whole = pa.RecordBatch.from_arrays(
        [filled.get(name, lines.column(name)) for name in LINE_SCHEMA.names], schema=LINE_SCHEMA
    )
    starts = whole.column(SRC_OFFSET).to_numpy(zero_copy_only=False)
    spans = np.where(known, lengths + 1, 1)
    return whole, starts + spans
