"""From a stretch of a line that somebody points at to extractions that take it.

Each suggestion is tried by the engine on the line and on its neighbours, so it does what it says: it takes
that very text from that line, and what it takes from the neighbours is told with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from sluice.engine.extract import BatchLines
from sluice.engine.places import FieldSpan, places
from sluice.tasks.extract import MAX_INDEX, Extract
from sluice.tasks.topic_spec import TopicFormat, TopicSpec

#: Different values of the neighbours that a suggestion shows.
EXAMPLES = 5
#: The most readable extraction comes first, unless another agrees with more than twice as many neighbours.
_AS_GOOD = 0.5
_DELIMITERS = (" ", "\t", ";", ",", "|")
#: A pattern that counts characters begins so. It is offered only where nothing else takes the stretch.
_PLACED = "(?s)^.{"
_SPECIAL = frozenset("\\]^[-&~")
_NAME = 64
_RESERVED = frozenset({"period", "state"})  # columns of every result


class NothingThere(ValueError):
    """The stretch is empty or not in the line."""


@dataclass(frozen=True)
class Suggestion:
    """An extraction that takes [begin, end) from the line, and how it does on all lines."""

    extract: Extract
    begin: int
    end: int
    value: str
    name: str  # for a dimension
    found: int  # lines that have a value
    alike: int  # of them, lines with a value of the same kind: a number, an address, a word
    examples: tuple[tuple[str, int], ...]  # the most frequent values and how many lines have each


def suggest(lines: Sequence[bytes], number: int, begin: int, end: int, topic: TopicSpec) -> list[Suggestion]:
    """Extractions that take the stretch [begin, end) of line `number`, the best first; then wider ones.

    A wider one takes the named field, or the field between blanks, that the stretch lies in. A stretch of a
    named field is taken by that name: a delimiter or a pattern over the whole line takes another word where a
    field before it has a blank or a quote. Positions are characters of the line's text. Raises NothingThere.
    """
    column = BatchLines(pa.array(list(lines), pa.binary()), {}, topic)
    text = column.text[number].as_py() if 0 <= number < len(lines) else ""
    if not 0 <= begin < end <= len(text):
        raise NothingThere(f"characters {begin} to {end} of line {number}: the line does not have them")
    there = places(text, topic)
    exact = _tried(column, number, _exact(text, begin, end, there))
    if not exact or _around(begin, end, there) is None:
        exact += _tried(column, number, _by_delimiter(text, begin, end, topic))
        exact += _tried(column, number, _by_pattern(text, begin, end))
    lasting = [each for each in exact if not (each.extract.regex or "").startswith(_PLACED)]
    exact = lasting or exact
    wide = _tried(column, number, _wider(text, begin, end, there))
    return [*_best_first(exact), *_best_first(wide)]


_Candidate = tuple[Extract | None, int, int, str]  # extraction, stretch, name


def _exact(text: str, begin: int, end: int, there: Sequence[FieldSpan]) -> Iterator[_Candidate]:
    """By the named field that the stretch lies in."""
    around = _around(begin, end, there)
    if around is None:
        return
    own, field = text[around.begin : around.end], around.field
    if (around.begin, around.end) == (begin, end):
        yield _made(field=field), begin, end, _plain(field)
    else:
        for pattern, name in _patterns(own, begin - around.begin, end - around.begin):
            yield _made(field=field, regex=pattern), begin, end, name or f"{_plain(field)}_part"


def _by_delimiter(text: str, begin: int, end: int, topic: TopicSpec) -> Iterator[_Candidate]:
    for delimiter in dict.fromkeys((*_DELIMITERS, text[begin - 1 : begin], text[end : end + 1])):
        if delimiter and not delimiter.isalnum() and (topic.format, delimiter) != (TopicFormat.JSON, '"'):
            yield from _between(text, begin, end, delimiter)


def _by_pattern(text: str, begin: int, end: int) -> Iterator[_Candidate]:
    for pattern, name in _patterns(text, begin, end):
        yield _made(regex=pattern), begin, end, name or "part"


def _between(text: str, begin: int, end: int, delimiter: str) -> Iterator[_Candidate]:
    """By the delimiter, and by a pattern in its field if the stretch is a part of one."""
    if delimiter in text[begin:end]:
        return
    first = text.rfind(delimiter, 0, begin) + 1
    last = text.find(delimiter, end)
    last = len(text) if last < 0 else last
    index = text.count(delimiter, 0, begin)
    if index > MAX_INDEX:
        return
    if (first, last) == (begin, end):
        yield _made(delimiter=delimiter, index=index), begin, end, f"field_{index}"
    elif delimiter in _DELIMITERS and index:
        for pattern, name in _patterns(text[first:last], begin - first, end - first):
            extract = _made(delimiter=delimiter, index=index, regex=pattern)
            yield extract, begin, end, name or f"field_{index}"


def _wider(text: str, begin: int, end: int, there: Sequence[FieldSpan]) -> Iterator[_Candidate]:
    around = _around(begin, end, there)
    if around is None:
        first, last = text.rfind(" ", 0, begin) + 1, text.find(" ", end)
        last = len(text) if last < 0 else last
        index = text.count(" ", 0, begin)
        if (first, last) != (begin, end) and " " not in text[begin:end] and index <= MAX_INDEX:
            yield _made(delimiter=" ", index=index), first, last, f"field_{index}"
    elif (around.begin, around.end) != (begin, end):
        yield _made(field=around.field), around.begin, around.end, _plain(around.field)


def _around(begin: int, end: int, there: Sequence[FieldSpan]) -> FieldSpan | None:
    found = [place for place in there if place.begin <= begin and end <= place.end]
    return min(found, key=lambda place: place.end - place.begin, default=None)


def _patterns(text: str, begin: int, end: int) -> Iterator[tuple[str, str]]:
    """Patterns that take [begin, end) of a text, and a name where the text says one."""
    before, token, after = text[:begin], text[begin:end], text[end : end + 1]
    cut = "/?#" if text.startswith("/") else " "
    stop = "".join(sign for sign in dict.fromkeys(after + cut) if sign not in token)
    taken = f"([^{_inside(stop)}]+)" if stop and not after.isalnum() else f"(.{{{len(token)}}})"
    key = re.search(r"""(?:^|[^A-Za-z0-9_.-])([A-Za-z_][A-Za-z0-9_.-]*)(["']?[=:]\s?["']?)$""", before)
    if key is not None:
        ends = "".join(dict.fromkeys(f"{stop}&")) if cut != " " and "&" not in token else stop
        value = f"([^{_inside(ends)}]+)" if ends and not after.isalnum() else taken
        yield rf"(?:^|[^A-Za-z0-9_.-]){re.escape(key[1])}{re.escape(key[2])}{value}", _plain(key[1])
    sign = before[-1:]
    if not before:
        yield f"^{taken}", ""
    elif not sign.isalnum():
        count, other = before.count(sign), _inside(sign)
        skipped = re.escape(sign) if before == sign else f"(?:[^{other}]*{re.escape(sign)}){{{count}}}"
        yield f"^{skipped}{taken}", ""
    if len(before) <= MAX_INDEX and len(token) <= MAX_INDEX:
        yield f"{_PLACED}{len(before)}}}(.{{{len(token)}}})", ""


def _inside(signs: str) -> str:
    """Characters as they stand inside [...]."""
    return "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in signs)


def _made(**fields: str | int) -> Extract | None:
    """The extraction, if the language has it: a pattern may be too long."""
    try:
        return Extract.model_validate(fields)
    except ValidationError:
        return None


def _tried(lines: BatchLines, number: int, candidates: Iterator[_Candidate]) -> list[Suggestion]:
    """The candidates that take their stretch from the line, in their order, each once."""
    text = lines.text[number].as_py()
    found: dict[Extract, Suggestion] = {}
    for extract, begin, end, name in candidates:
        if extract is None or extract in found:
            continue
        values = lines.values(extract)
        distinct = values.distinct.to_pylist()
        code = int(values.codes[number])
        if code == len(distinct) or not _same(text[begin:end], distinct[code], lines.is_json):
            continue
        counts = np.bincount(values.codes, minlength=len(distinct) + 1)[: len(distinct)].tolist()
        kind = _kind(distinct[code])
        often = sorted(zip(distinct, counts, strict=True), key=lambda each: -each[1])
        found[extract] = Suggestion(
            extract=extract,
            begin=begin,
            end=end,
            value=distinct[code],
            name=name,
            found=sum(counts),
            alike=sum(n for value, n in zip(distinct, counts, strict=True) if _kind(value) == kind),
            examples=tuple(often[:EXAMPLES]),
        )
    return [*found.values()]


def _best_first(found: list[Suggestion]) -> list[Suggestion]:
    """Those that agree with at least half as many neighbours as the best one does, then the others."""
    most = max((each.alike for each in found), default=0)
    return sorted(found, key=lambda each: each.alike < _AS_GOOD * most)


def _same(written: str, value: str, is_json: bool) -> bool:
    """Whether the value stands in the line as it is; JSON writes some texts and numbers differently."""
    if written == value or not is_json:
        return written == value
    for text in (written, f'"{written}"'):
        try:
            meant = json.loads(text, strict=False)
            if meant == value or (isinstance(meant, int | float) and float(value) == float(meant)):
                return True
        except (ValueError, OverflowError):
            continue
    return False


def _kind(value: str) -> str:
    if re.fullmatch(r"[0-9]+", value):
        return "digits"
    if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]+", value):
        return "address"
    if re.fullmatch(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?", value):
        return "number"
    return "nothing" if value in ("", "-") else "text"


def _plain(text: str) -> str:
    """A name for a dimension, made of a field's or a key's name."""
    last = re.split(r"[./]", text.strip("/"))[-1]
    name = re.sub(r"[^a-z0-9_-]+", "_", last.lower()).strip("_-")[: _NAME - 8]
    if not re.match("[a-z]", name):
        name = f"value_{name}".rstrip("_")
    return f"{name}_value" if name in _RESERVED else name
