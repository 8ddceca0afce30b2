"""The fields of an access log's lines (Apache's common and combined formats).

One regular expression cuts a line, both for the named fields of tasks (`named`) and for the table `logs`
(`fields`). In that table the fields stay bytes, because a log line need not be UTF-8. Of many lines a kernel
finds the same fields (`CompiledAccessLog`): these expressions take 2 us a line.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.cut import Encoded, encode_stretches, raw
from sluice.runtime.arrays import Bools

_QUOTED = r'"((?:[^"\\]|\\.)*)"'  # Apache writes a quote inside a field as \"


def _named(name: str) -> str:
    return _QUOTED.replace("((", f"(?P<{name}>(", 1)


LINE = (
    r"(?s)^(?P<client>\S+) (?P<ident>\S+) (?P<user>[^\[]*?) \[(?P<time>[^\]]*)\] "
    + _named("request")
    + r" (?P<status>[0-9]{3}) (?P<bytes>-?[0-9][^\s\"]*|-)(?: "
    + _named("referer")
    + " "
    + _named("agent")
    + ")?"
)
INTEGER = "^[0-9]{1,18}$"
REQUEST = r"(?s)^(?P<method>\S+)(?: (?P<path>.*?))?(?: (?P<protocol>[A-Z]+/[0-9.]+))?$"

FIELDS = pa.schema(
    [
        ("client", pa.binary()),
        ("ident", pa.binary()),
        ("user_name", pa.binary()),
        ("method", pa.binary()),
        ("path", pa.binary()),
        ("protocol", pa.binary()),
        ("status", pa.int32()),
        ("bytes", pa.int64()),
        ("referer", pa.binary()),
        ("agent", pa.binary()),
    ]
)


def named(lines: pa.Array) -> dict[str, pa.Array]:
    """Every named field of lines (text or binary) as it stands.

    A field is null if the line is not an access log's. It is empty if a line of the common format lacks it
    (referer, agent), or if a request does (path, protocol).
    """
    line = pc.extract_regex(lines, pattern=LINE)
    found = dict(zip((field.name for field in line.type), line.flatten(), strict=True))
    requests = found.pop("request").dictionary_encode()  # few are distinct: each is cut once
    request = pc.extract_regex(requests.dictionary, pattern=REQUEST)
    for field, values in zip(request.type, request.flatten(), strict=True):
        found[field.name] = values.take(requests.indices)
    return found


class CompiledAccessLog:
    """The named fields of lines of text, found by a kernel; each is a dictionary once it is asked for."""

    def __init__(self, text: pa.Array) -> None:
        from sluice.engine.kernels import access_log

        self._row = {name: row for row, name in enumerate(access_log.FIELDS)}
        bounds, self._data = raw(text)
        self._begins, self._lengths = (np.empty((len(self._row), len(text)), np.int32) for _ in range(2))
        access_log.cut(self._data, bounds, self._begins, self._lengths)

    @property
    def found(self) -> Bools:
        """Which lines are an access log's."""
        lines: Bools = self._lengths[self._row["client"]] > 0
        return lines

    def column(self, field: str) -> Encoded:
        """The field; a line that does not have it, or has nothing there, has the code for nothing."""
        row = self._row[field]
        return encode_stretches(self._data, self._begins[row], self._lengths[row])


def fields(lines: pa.Array) -> dict[str, pa.Array]:
    """The `FIELDS` of binary lines.

    A field is null if it is "-" or empty, if it is to be an integer and is none of up to 18 digits, or if the
    line is not an access log's.
    """
    every = named(lines)
    found = {}
    for field in FIELDS:
        values = every["user" if field.name == "user_name" else field.name]
        if pa.types.is_binary(field.type):
            there = pc.and_(pc.not_equal(values, b"-"), pc.not_equal(values, b""))
        else:
            there = pc.match_substring_regex(values, INTEGER)
        values = pc.if_else(there, values, pa.scalar(None, values.type))
        if not pa.types.is_binary(field.type):
            values = values.cast(pa.string()).cast(field.type)
        found[field.name] = values
    return found
