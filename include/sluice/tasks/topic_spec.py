"""What the lines of a topic look like, and when each of them happened.

A topic is described once, before its first line is counted, because both layers must read lines alike::

    name: shop
    format: json
    time: {extract: {field: at}, format: iso8601}

A topic that nobody described is `TopicSpec(name=...)`: Apache's combined (or common) access log.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from sluice.tasks.extract import MAX_FIELD, MAX_INDEX, Extract
from sluice.tasks.grouping import GroupingSpec
from sluice.tasks.period import UTC
from sluice.tasks.spec_base import Model, TopicName
from sluice.tasks.zones import check_zone

#: The named fields of Apache's combined log; the common log has no referer and agent.
COMBINED_FIELDS = (
    "client",
    "ident",
    "user",
    "time",
    "method",
    "path",
    "protocol",
    "status",
    "bytes",
    "referer",
    "agent",
)
#: What SQL calls the whole line; a JSON field of that name is reached as "/line".
LINE = "line"
#: The formats of time that have a name; any other format is a pattern.
NAMED_TIMES = ("apache", "iso8601", "epoch_s", "epoch_ms")
#: The directives that a pattern may have: Python, Rust and Arrow agree on their meaning.
DIRECTIVES = frozenset("YmdbHMSfz%")
_MAX_DEPTH = 16
#: A key of digits may be an object's key or an array's index: each such key doubles the number of paths.
_MAX_INDEXES = 3
_INDEX_DIGITS = 9

_Column = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=MAX_FIELD)]


class TimeSpec(Model):
    """Where a line's own time stands (`extract`; default: the whole line), and its format.

    `apache`: `[17/May/2015:10:05:03 +0000]`, the first in brackets (which an extraction may leave out);
    `iso8601`: `2015-05-17T10:05:03.250Z`, where a space may replace the T and the offset may be missing;
    `epoch_s` and `epoch_ms`: seconds (with or without a fraction) and milliseconds since 1970; any other
    format is a pattern of `%Y %m %d %b %H %M %S %f %z`. `zone` is the zone of stamps without an offset: UTC
    if left out. If the zone's clock shows a time twice, the earlier instant counts; if it skips a time, the
    first instant after does.
    """

    extract: Extract | None = None
    format: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    zone: str | None = None

    @field_validator("format")
    @classmethod
    def _known(cls, text: str) -> str:
        if text not in NAMED_TIMES:
            _check_pattern(text)
        return text

    @field_validator("zone")
    @classmethod
    def _zone(cls, name: str | None) -> str | None:
        return name if name is None else check_zone(name)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.extract is None and self.format != "apache":
            raise ValueError(
                f"format {self.format!r} without an extract: say where the time stands, "
                'e.g. extract: {delimiter: " ", index: 0}'
            )
        if self.zone is not None and not self.naive:
            raise ValueError(
                f"zone {self.zone!r} with format {self.format!r}, which says its own offset: drop the zone"
            )
        return self

    @property
    def naive(self) -> bool:
        """Whether stamps may come without an offset."""
        return self.format == "iso8601" or (self.format not in NAMED_TIMES and "%z" not in self.format)

    @property
    def assumed_zone(self) -> str:
        """The zone of a stamp without an offset."""
        return self.zone or UTC


class TopicFormat(StrEnum):
    """How the fields of a line are found."""

    COMBINED = "combined"
    DELIMITED = "delimited"
    JSON = "json"


class TopicSpec(Model):
    """The format of a topic's lines: which fields have names, and how the time is read.

    - `combined`: Apache's access log, combined or common; the fields are `COMBINED_FIELDS`;
    - `delimited`: cut at every `delimiter`; `columns` names the fields, in order;
    - `json`: an object a line; a field is a dotted path (`request.path`) or a JSON pointer (`/request/path`).
    """

    name: TopicName = "logs"
    format: Annotated[TopicFormat, Field(strict=False)] = TopicFormat.COMBINED
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=16)] | None = None
    columns: Annotated[tuple[_Column, ...], Field(strict=False, max_length=MAX_INDEX + 1)] = ()
    time: TimeSpec | None = None
    #: For tasks that name none. It may change at any time, because lines are read the same.
    grouping: GroupingSpec | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.format == TopicFormat.DELIMITED:
            if self.delimiter is None or not self.columns:
                raise ValueError(
                    'a delimited topic needs its delimiter and the names of its columns: add delimiter: ";" '
                    "and columns: [time, client, ...]"
                )
        elif self.delimiter is not None or self.columns:
            raise ValueError(
                f"delimiter and columns belong to format: delimited; this topic is {self.format}: "
                "drop them, or change the format"
            )
        for name in self.columns:
            if name == LINE:
                raise ValueError(f"a column called {LINE!r}, as SQL calls the whole line: choose another")
            if self.columns.count(name) > 1:
                raise ValueError(f"two columns are called {name!r}: give each its own name")
        if self.time is None and self.format != TopicFormat.COMBINED:
            raise ValueError(
                f"a {self.format} topic without time: say where a line's time stands, "
                "e.g. time: {extract: {field: at}, format: iso8601}"
            )
        if self.time is not None and self.time.extract is not None:
            problem = self.unknown_field(self.time.extract)
            if problem:
                raise ValueError(f"time: {problem}")
        return self

    def reads_as(self, other: Self) -> bool:
        """Whether both read the same lines alike."""
        return self.model_copy(update={"grouping": None}) == other.model_copy(update={"grouping": None})

    def index(self, field: str) -> int:
        """The place of a named column in a delimited line, from 0."""
        return self.columns.index(field)

    def unknown_field(self, extract: Extract) -> str | None:
        """What is wrong with the extraction's named field in this topic; None if nothing is."""
        field = extract.field
        if field is None:
            return None
        if self.format == TopicFormat.JSON:
            try:
                json_path(field)
            except ValueError as error:
                return str(error)
            return None
        known = COMBINED_FIELDS if self.format == TopicFormat.COMBINED else self.columns
        if field in known:
            return None
        return f"topic {self.name} ({self.format}) has no field {field!r}: use one of {', '.join(known)}"


def json_path(field: str) -> tuple[str, ...]:
    """The keys (in arrays: decimal indexes) that lead to a JSON field; `ValueError` if none do."""
    if field.startswith("/"):
        if re.search(r"~(?![01])", field):
            raise ValueError(f"field {field!r} has a ~ that is neither ~0 nor ~1: write ~0 for ~, ~1 for /")
        keys = tuple(k.replace("~1", "/").replace("~0", "~") for k in field[1:].split("/"))
    else:
        keys = tuple(field.split("."))
        if "" in keys:
            raise ValueError(
                f"field {field!r} has an empty part: write a path like request.path, or a JSON pointer "
                "like /request/path"
            )
    if len(keys) > _MAX_DEPTH:
        raise ValueError(
            f"field {field!r} is {len(keys)} levels deep, {_MAX_DEPTH} are allowed: log flatter objects"
        )
    for key in keys:  # a JSONPath has no way to write these
        if "\\" in key or ('"' in key and "'" in key):
            raise ValueError(
                f"field {field!r}: the key {key!r} has a backslash or both kinds of quotes, so it cannot be "
                "named: log it under another"
            )
    if (indexes := sum(map(is_index, keys))) > _MAX_INDEXES:
        raise ValueError(
            f"field {field!r} has {indexes} keys that are numbers, {_MAX_INDEXES} are allowed: log less deep"
        )
    return keys


def is_index(key: str) -> bool:
    """Whether a JSON key may also be an index of an array."""
    return key.isascii() and key.isdigit() and len(key) <= _INDEX_DIGITS


def _check_pattern(text: str) -> None:
    if "%" not in text:
        raise ValueError(
            f"{text!r} is no time format: use {', '.join(NAMED_TIMES)} or a pattern like %Y-%m-%d %H:%M:%S"
        )
    used = re.findall(r"%(.?)", text, re.DOTALL)
    for directive in used:
        if directive not in DIRECTIVES or directive == "":
            raise ValueError(
                f"{text!r}: %{directive} is not known here: use %Y %m %d %b %H %M %S %f (a fraction) and %z"
            )
        if directive != "%" and used.count(directive) > 1:
            raise ValueError(f"{text!r}: %{directive} stands there twice: keep one")
    if not {"Y", "d", "H", "M", "S"} <= set(used) or ("m" in used) == ("b" in used):
        raise ValueError(
            f"{text!r} does not tell an instant: it needs %Y, %m or %b, %d, %H, %M and %S, each once"
        )
