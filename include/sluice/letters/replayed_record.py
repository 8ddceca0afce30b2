"""Under which identity a dead letter's line goes to another topic: always the same one.

A line of a file keeps its own: host, file and byte offset. A line that came from no file has its place in
Kafka (`transmission.line_identity`), which only its own topic knows. Elsewhere it stands for a line of a
file named `<topic>/<partition>/<n>`, n counting 2^33 positions, of a host that no front-end can be called.
There each position has 2^26 bytes, so no two lines overlap in a byte ledger.
"""

from __future__ import annotations

from sluice.engine.parse import NOT_GENUINE
from sluice.storage.tables.dead_letters import OF_DIMENSION, DeadLetter
from sluice.transmission.blocks import NEWLINE
from sluice.transmission.line_identity import KAFKA_HOST, REPLAYED_HOST
from sluice.transmission.record_writer import LineRecord

#: Bits of an offset that are a line's bytes, and that are its position. Together they have 18 digits at most,
#: as an offset in a header may.
LINE_BITS, POSITION_BITS = 26, 33
MOST_BYTES = (1 << LINE_BITS) - 1  # and a newline


def record(letter: DeadLetter, line: bytes) -> LineRecord:
    """The record of the letter's whole line; only of one that `refusal` lets pass."""
    host, file, offset = letter.host, letter.src_file, letter.src_offset
    if host is None or host == KAFKA_HOST or file is None or offset is None:
        part, place = divmod(letter.offset, 1 << POSITION_BITS)
        file = f"{letter.topic}/{letter.partition}/{part}"
        return LineRecord(REPLAYED_HOST, file, place << LINE_BITS, line)
    return LineRecord(host, file, offset, line)


def of_no_file(letter: DeadLetter) -> bool:
    """Whether the line was not collected from a file."""
    return letter.host in {None, KAFKA_HOST} or letter.src_file is None or letter.src_offset is None


def refusal(letter: DeadLetter, line: bytes | None) -> str:
    """Why the letter's line can be sent to no topic; empty if it can."""
    if letter.reason == NOT_GENUINE:
        return "forged: nobody knows whose line it is"
    if letter.unreadable is not None:
        return "unreadable: there is no line"
    if letter.reason.startswith(OF_DIMENSION):  # retention keeps it for ever, but no ledger
        return "an earlier release gave it up for good"
    if line is None:
        return "its whole line is neither in the archive nor in Kafka"
    return _refused_of_no_file(line) if of_no_file(letter) else ""


def _refused_of_no_file(line: bytes) -> str:
    if NEWLINE in line:
        return "of no file, with a line feed inside: it would become several lines"
    return f"of no file, and over {MOST_BYTES:,} bytes" if len(line) > MOST_BYTES else ""
