"""The fields of an access log's lines (Apache's common and combined formats).

One regular expression cuts a line, for the named fields of tasks (`named`) and for the table `logs`
(`fields`), where they stay bytes, for a log line need not be UTF-8.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_QUOTED = r'"((?:[^"\\]|\\.)*)"'  # Apache writes a quote inside a field as \"


def _named(name: str) -> str:
    return _QUOTED.replace("((", f"(?P<{name}>(", 1)


_LINE = (
    r"(?s)^(?P<client>\S+) (?P<ident>\S+) (?P<user>[^\[]*?) \[(?P<time>[^\]]*)\] "
    + _named("request")
    + r" (?P<status>[0-9]{3}) (?P<bytes>-|[0-9]{1,18})(?: "
    + _named("referer")
    + " "
    + _named("agent")
    + ")?"
)
_REQUEST = r"(?s)^(?P<method>\S+)(?: (?P<path>.*?))?(?: (?P<protocol>[A-Z]+/[0-9.]+))?$"

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
    """Every named field of lines (text or binary) as it stands; null where a line is no access log's.

    What a line of the common format lacks (referer, agent) or a request (path, protocol) is empty.
    """
    line = pc.extract_regex(lines, pattern=_LINE)
    found = dict(zip((field.name for field in line.type), line.flatten(), strict=True))
    requests = found.pop("request").dictionary_encode()  # few: each is taken apart once
    request = pc.extract_regex(requests.dictionary, pattern=_REQUEST)
    for field, values in zip(request.type, request.flatten(), strict=True):
        found[field.name] = values.take(requests.indices)
    return found


def fields(lines: pa.Array) -> dict[str, pa.Array]:
    """`FIELDS` of binary lines; null where a line has none ("-", nothing) or is no access log's."""
    every = named(lines)
    found = {}
    for field in FIELDS:
        values = every["user" if field.name == "user_name" else field.name]
        empty = pc.or_(pc.equal(values, b"-"), pc.equal(values, b""))
        values = pc.if_else(empty, pa.scalar(None, values.type), values)
        if not pa.types.is_binary(field.type):
            values = values.cast(pa.string()).cast(field.type)
        found[field.name] = values
    return found
