"""Under which identity a line goes to another topic, always the same one; and which lines go to none.

A line of a file keeps its own identity: host, file and byte offset. A line that came from no file has its
place in Kafka (`transmission.line_identity`), which only its own topic knows. Elsewhere it stands for a line
of a file named `<topic>/<partition>/<n>`, n counting 2^33 positions, of a host that no front-end can be
called. There each position has 2^26 bytes, so no two lines overlap in a byte ledger.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.parse import NOT_GENUINE, refused
from sluice.runtime.arrays import Bools, Ints
from sluice.transmission.blocks import proved
from sluice.transmission.line_identity import KAFKA_HOST, REPLAYED_HOST
from sluice.transmission.line_schema import HOST, LINE_SCHEMA, SRC_FILE, SRC_OFFSET
from sluice.transmission.record_writer import LineRecord
from sluice.transmission.redacted import REDACTED

#: Bits of an offset that are a line's bytes, and that are its position. Together they have 18 digits at most,
#: as an offset in a header may.
LINE_BITS, POSITION_BITS = 26, 33
MOST_BYTES = (1 << LINE_BITS) - 1  # and a newline
#: A record of several lines lies in one such piece of its file, as those of edges have that many at most.
BLOCK_BYTES = 64 << 10

#: What a record that gives no line is called here.
_REFUSED = {
    NOT_GENUINE: "forged: nobody knows whose line it is",
    REDACTED: "erased, and redacted in the archive",
}
_UNREADABLE = "unreadable: there is no line"


def refusals(lines: pa.RecordBatch) -> pa.Array:
    """Why a line (LINE_SCHEMA) can be sent to no topic; null where it can."""
    why = np.full(len(lines), None, object)
    text = lines.column("line")
    alone = of_no_file(lines)
    why[alone & (_lengths(text) > MOST_BYTES)] = f"of no file, and over {MOST_BYTES:,} bytes"
    several = np.asarray(pc.match_substring(text, "\n"))
    why[alone & several] = "of no file, with a line feed inside: it would become several lines"
    if (given := refused(lines)) is not None:
        for row in np.flatnonzero(np.asarray(given.is_valid())).tolist():
            why[row] = _REFUSED.get(given[row].as_py(), _UNREADABLE)
    return pa.array(why, pa.string())


def of_no_file(lines: pa.RecordBatch) -> Bools:
    """Which lines were not collected from a file."""
    found: Bools = ~proved(lines) | np.asarray(pc.fill_null(pc.equal(lines.column(HOST), KAFKA_HOST), True))
    return found


def under_identity(lines: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    """The topic's lines (LINE_SCHEMA), each with the identity that it has in every other topic."""
    alone = of_no_file(lines)
    if not alone.any():
        return lines
    own = pa.array(alone)
    position = lines.column("offset").to_numpy()
    place = ((position & ((1 << POSITION_BITS) - 1)) << LINE_BITS).astype(np.int64)
    number = pa.array(position >> POSITION_BITS).cast(pa.string())
    file = pc.binary_join_element_wise(topic, lines.column("partition").cast(pa.string()), number, "/")
    filled = {
        HOST: pc.if_else(own, REPLAYED_HOST, lines.column(HOST)),
        SRC_FILE: pc.if_else(own, file, lines.column(SRC_FILE)),
        SRC_OFFSET: pc.if_else(own, pa.array(place), lines.column(SRC_OFFSET)),
    }
    columns = [filled.get(name, lines.column(name)) for name in LINE_SCHEMA.names]
    return pa.RecordBatch.from_arrays(columns, schema=LINE_SCHEMA)


def ends(lines: pa.RecordBatch) -> Ints:
    """Where each line that has an identity ends in its file, with its newline."""
    starts: Ints = lines.column(SRC_OFFSET).to_numpy(zero_copy_only=False)
    return starts + _lengths(lines.column("line")) + 1


def runs(lines: pa.RecordBatch) -> Ints:
    """The rows at which runs begin: lines of one file, each of which starts where the one before it ends."""
    return _begins(lines, _follow(lines))


def records(lines: pa.RecordBatch) -> list[LineRecord]:
    """The records of these lines, which have identities: blocks, as an edge would make them."""
    if not len(lines):
        return []
    starts = lines.column(SRC_OFFSET).to_numpy(zero_copy_only=False)
    together = starts[:-1] // BLOCK_BYTES == (ends(lines)[1:] - 1) // BLOCK_BYTES
    first = _begins(lines, _follow(lines) & together)
    bounds = pa.array(np.append(first, len(lines)).astype(np.int32))
    bodies = pc.binary_join(pa.ListArray.from_arrays(bounds, lines.column("line")), b"\n")
    heads = lines.take(pa.array(first))
    columns = (each.to_pylist() for each in (*map(heads.column, (HOST, SRC_FILE, SRC_OFFSET)), bodies))
    return [LineRecord(*each) for each in zip(*columns, strict=True)]


def _follow(lines: pa.RecordBatch) -> Bools:
    """Of each line but the first, whether it begins where the line before it ends."""
    starts = lines.column(SRC_OFFSET).to_numpy(zero_copy_only=False)
    found: Bools = starts[1:] == ends(lines)[:-1]
    for name in (HOST, SRC_FILE):
        column = lines.column(name)
        found = found & np.asarray(pc.equal(column[1:], column[:-1]))
    return found


def _begins(lines: pa.RecordBatch, goes_on: Bools) -> Ints:
    return np.flatnonzero(np.append(True, ~goes_on)) if len(lines) else np.empty(0, np.int64)


def _lengths(text: pa.Array) -> Ints:
    found: Ints = pc.binary_length(text).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
