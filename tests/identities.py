"""Records as collectors send them: with an identity, and a key that a line's doubles share."""

from __future__ import annotations

import re

from sluice.transmission.identity import Headers
from sluice.transmission.records import HOST, SRC_FILE, SRC_OFFSET

# At most 64 bytes of the text before the first white space; in an access log this is the client.
KEY = re.compile(rb"\S{0,64}")


def record_key(line: bytes) -> bytes:
    found = KEY.match(line)
    return found.group() if found else b""


def to_headers(host: str, src_file: str, src_offset: int) -> Headers:
    """The headers of a line of that identity; `src_offset` is its first byte in its file."""
    return [(HOST, host.encode()), (SRC_FILE, src_file.encode()), (SRC_OFFSET, b"%d" % src_offset)]
