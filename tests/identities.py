"""Records as the collectors send them: the key that keeps a line's doubles together, and its identity."""

from __future__ import annotations

import re

from sluice.transmission.identity import Headers
from sluice.transmission.records import HOST, SRC_FILE, SRC_OFFSET

# What stands before the first white space, at most 64 bytes of it; for an access log, the client.
KEY = re.compile(rb"\S{0,64}")


def record_key(line: bytes) -> bytes:
    found = KEY.match(line)
    return found.group() if found else b""


def to_headers(host: str, src_file: str, src_offset: int) -> Headers:
    """The headers under which a line of that identity travels; `src_offset` is its first byte in its file."""
    return [(HOST, host.encode()), (SRC_FILE, src_file.encode()), (SRC_OFFSET, b"%d" % src_offset)]
