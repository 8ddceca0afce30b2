"""The schema of a batch of lines, and the one definition of a line's identity.

A Kafka record has one line or several (`transmission.blocks`). A line's place is (partition, offset,
line_in_record); its identity is its place in its file.
"""

from __future__ import annotations

import pyarrow as pa

#: A line is identified by its front-end, its file there and the place of its first byte. These are headers in
#: Kafka and columns here.
HOST, SRC_FILE, SRC_OFFSET = IDENTITY = ("host", "src_file", "src_offset")
#: The header that proves the identity (`transmission.mac`).
MAC = "mac"
#: Whether a record came with an identity that it could not prove: then it has none, and is a dead letter.
FORGED = "forged"
#: The place of the line in its record, from 0 on.
LINE_IN_RECORD = "line_in_record"
#: Why a record, or all from its offset to LAST_OFFSET, could not be read: "<reason>: <what is wrong>". Then
#: it is a dead letter, and `line` is the beginning of its bytes.
UNREADABLE, LAST_OFFSET = "unreadable", "last_offset"

#: A batch of lines as the layers read them: online from Kafka, offline from the archive.
LINE_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("arrival", pa.int64(), nullable=False),  # ms since the epoch, stamped by the broker
        pa.field(HOST, pa.string()),
        pa.field(SRC_FILE, pa.string()),
        pa.field(SRC_OFFSET, pa.int64()),
        pa.field("line", pa.binary(), nullable=False),  # without its newline
        pa.field(FORGED, pa.bool_()),  # null, in the archive's older files, means that it is not
        pa.field(LINE_IN_RECORD, pa.int32()),  # null, in the archive's older files, means 0
        pa.field(UNREADABLE, pa.string()),  # null where it could be read, as in the archive's older files
        pa.field(LAST_OFFSET, pa.int64()),  # null where it could be read
    ]
)
