"""What a test needs to send a record as collectors do: a key for its proof, and one that doubles share.

Its headers are made by `sluice_lab.bench.headers`.
"""

from __future__ import annotations

import re

#: For tests without a running instance.
KEY = b"the key of the tests"

# At most 64 bytes of the text before the first white space; in an access log this is the client.
CLIENT = re.compile(rb"\S{0,64}")


def record_key(line: bytes) -> bytes:
    found = CLIENT.match(line)
    return found.group() if found else b""
