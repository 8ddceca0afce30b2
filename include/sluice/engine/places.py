"""Where the named fields of a line stand in it, and which pieces of a line a person can point at.

Places are positions in the line's text, counted in characters. They serve people who point at a line; what a
field's value is, the engine alone decides (`engine.fields`).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from sluice.engine.access_log import LINE, REQUEST
from sluice.tasks.topic_spec import COMBINED_FIELDS, TopicFormat, TopicSpec

#: Named fields are not looked for in longer lines, which nobody reads.
MOST_CHARACTERS = 16_384
#: JSON that is deeper is no JSON to the engine either.
_DEEPEST = 128
_PIECE = re.compile(r"""[^\s"'\[\](){}<>,;|/?&=#\\]+""")
_COMBINED = re.compile(LINE, re.ASCII)
_REQUESTED = re.compile(REQUEST, re.ASCII)
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SCALAR = re.compile(r"-?[0-9][0-9.eE+-]*|true|false")


class FieldSpan(NamedTuple):
    """A named field and where it stands: [begin, end)."""

    begin: int
    end: int
    field: str


class LineStretch(NamedTuple):
    """A stretch of a line that a person can point at: [begin, end)."""

    begin: int
    end: int


def places(text: str, topic: TopicSpec) -> list[FieldSpan]:
    """The named fields of a line, from left to right; none where the line is not of the topic's format."""
    if len(text) > MOST_CHARACTERS:
        return []
    if topic.format == TopicFormat.JSON:
        try:
            return [each for each in _members(text, _skip(text, 0), ()) if isinstance(each, FieldSpan)]
        except _NotJson:
            return []
    found = _of_access_log(text) if topic.format == TopicFormat.COMBINED else _columns(text, topic)
    return sorted(each for each in found if each.begin < each.end)


def pieces(text: str, topic: TopicSpec) -> list[LineStretch]:
    """The stretches of a line that a person can point at, from left to right; they do not overlap.

    No piece crosses the edge of a named field. In JSON all of them lie in values.
    """
    found = places(text, topic)
    edges = sorted({0, len(text), *(at for place in found for at in (place.begin, place.end))})
    inside = {place.begin for place in found}
    if topic.format == TopicFormat.JSON and found:
        stretches = [(place.begin, place.end) for place in found]
    else:
        stretches = [*itertools.pairwise(edges)]
    made = []
    for begin, end in stretches:
        cut = [LineStretch(m.start(), m.end()) for m in _PIECE.finditer(text, begin, end)]
        made += cut or ([LineStretch(begin, end)] if begin in inside and begin < end else [])
    return made


def _of_access_log(text: str) -> Iterator[FieldSpan]:
    line = _COMBINED.match(text)
    if line is None:
        return
    begin = line.start("request")
    request = _REQUESTED.match(line["request"])
    for field in COMBINED_FIELDS:
        if field in line.re.groupindex:
            yield FieldSpan(*line.span(field), field)
        elif request is not None and request[field] is not None:
            yield FieldSpan(begin + request.start(field), begin + request.end(field), field)


def _columns(text: str, topic: TopicSpec) -> Iterator[FieldSpan]:
    delimiter, begin = topic.delimiter or "", 0
    for name, value in zip(topic.columns, text.split(delimiter), strict=False):
        yield FieldSpan(begin, begin + len(value), name)
        begin += len(value) + len(delimiter)


class _NotJson(ValueError):
    pass


def _members(text: str, at: int, path: tuple[str, ...]) -> Iterator[FieldSpan | int]:
    """The places of a JSON value that begins at `at`; last, where the value ends."""
    if len(path) > _DEEPEST:
        raise _NotJson
    if text[at : at + 1] in ("{", "["):
        yield from _container(text, at, path)
    elif match := _STRING.match(text, at) or _SCALAR.match(text, at):
        quoted = match[0].startswith('"')
        if path and (field := _field(path)):
            yield FieldSpan(match.start() + quoted, match.end() - quoted, field)
        yield match.end()
    elif text.startswith("null", at):
        yield at + len("null")
    else:
        raise _NotJson


def _container(text: str, at: int, path: tuple[str, ...]) -> Iterator[FieldSpan | int]:
    named, number = text[at] == "{", 0
    close = "}" if named else "]"
    at = _skip(text, at + 1)
    while not text.startswith(close, at):
        key = str(number)
        if named:
            match = _STRING.match(text, at)
            if match is None:
                raise _NotJson
            try:
                key = str(json.loads(match[0], strict=False))
            except ValueError:
                raise _NotJson from None
            at = _skip(text, match.end())
            at = _skip(text, _past(text, at, ":"))
        for found in _members(text, at, (*path, key)):
            if isinstance(found, FieldSpan):
                yield found
            else:
                at = _skip(text, found)
        number += 1
        if not text.startswith(close, at):
            at = _skip(text, _past(text, at, ","))
    yield at + 1


def _past(text: str, at: int, sign: str) -> int:
    if not text.startswith(sign, at):
        raise _NotJson
    return at + 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _field(path: tuple[str, ...]) -> str | None:
    """How a task names these keys: dotted if that says it, else as a JSON pointer."""
    if all(path) and not path[0].startswith("/") and not any("." in key for key in path):
        return ".".join(path)
    return "/" + "/".join(key.replace("~", "~0").replace("/", "~1") for key in path)
