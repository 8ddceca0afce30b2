"""Kafka's headers as collectors send them: a record's identity and its proof."""

from __future__ import annotations

from sluice.transmission.line_schema import HOST, MAC, SRC_FILE, SRC_OFFSET
from sluice.transmission.mac import mac

Headers = list[tuple[str, bytes]]


def to_headers(host: str, src_file: str, src_offset: int, line: bytes, key: bytes) -> Headers:
    """The headers of a line of that identity; `src_offset` is its first byte in its file."""
    identity = [(HOST, host.encode()), (SRC_FILE, src_file.encode()), (SRC_OFFSET, b"%d" % src_offset)]
    return signed(identity, line, key)


def signed(identity: Headers, line: bytes, key: bytes) -> Headers:
    """The headers of an identity, and the proof of it."""
    first = dict(reversed(identity))
    return [*identity, (MAC, mac(key, first[HOST], first[SRC_FILE], first[SRC_OFFSET], line))]
