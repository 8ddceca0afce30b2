"""A batch of lines, and what names one of them: the one definition of a line's identity."""

from __future__ import annotations

import pyarrow as pa

#: A line is its front-end, its file there and the place of its first byte: headers in Kafka, columns here.
HOST, SRC_FILE, SRC_OFFSET = IDENTITY = ("host", "src_file", "src_offset")

#: A batch of lines as either layer reads them: from Kafka online, from the archive offline.
RECORDS = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("arrival", pa.int64(), nullable=False),  # ms since the epoch, stamped by the broker
        pa.field(HOST, pa.string()),
        pa.field(SRC_FILE, pa.string()),
        pa.field(SRC_OFFSET, pa.int64()),
        pa.field("line", pa.binary(), nullable=False),  # without its newline
    ]
)
