"""How a value is cut out of a line, and which values pass."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from sluice.tasks.expressions import groups
from sluice.tasks.spec_base import Model, Name

MAX_INDEX = 1023
MAX_VALUES = 10_000
MAX_FIELD = 256


class Extract(Model):
    """How a value is cut out of a line: by delimiter or named field, by regex, or by both.

    `index` counts the fields between occurrences of the *single* `delimiter` from 0: two delimiters in a row
    enclose an empty field. `field` is a field that the topic's format names (`topic_spec`); its value is
    taken as it stands, "-" included. `regex` is applied to what delimiter or field gave, else to the line.
    `group` is the capture group to take (0: the whole match). If it is left out, the first group is taken, or
    the whole match if the pattern has no group. A pattern matches anywhere in the text, unless anchored.
    """

    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=16)] | None = None
    index: Annotated[int, Field(ge=0, le=MAX_INDEX)] | None = None
    field: Annotated[str, StringConstraints(min_length=1, max_length=MAX_FIELD)] | None = None
    regex: Annotated[str, StringConstraints(min_length=1)] | None = None
    group: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.field is not None and (self.delimiter is not None or self.index is not None):
            raise ValueError(
                f"field {self.field!r} and a delimiter or an index: a value is cut out by one of them, "
                "drop the other"
            )
        if self.delimiter is None and self.field is None and self.regex is None:
            raise ValueError(
                'nothing to extract by: give {delimiter: " ", index: 0} or {field: status} or {regex: "..."}'
            )
        if self.delimiter is None and self.index is not None:
            raise ValueError(f"index {self.index} without a delimiter: add the delimiter, or drop the index")
        if self.delimiter is not None and self.index is None:
            raise ValueError(f"delimiter {self.delimiter!r} without an index: add the field's index, from 0")
        if self.regex is None:
            if self.group is not None:
                raise ValueError(f"group {self.group} without a regex: add the regex, or drop the group")
            return self
        count = groups(self.regex)
        if self.group is not None and self.group > count:
            raise ValueError(
                f"group {self.group} of a pattern with {count} groups: use 0 (the whole match) to {count}"
            )
        return self

    @property
    def capture(self) -> int:
        """The capture group to take; `regex` must be given."""
        if self.group is not None:
            return self.group
        return min(groups(self.regex or ""), 1)


class FilterMode(StrEnum):
    """Whether the named values pass, or all others."""

    WHITE = "white"
    BLACK = "black"


class Filter(Model):
    """Which values pass: with a white list the named ones, with a black list all others.

    Values are named by a list (`values`), by a pattern (`regex`), or by a list that users keep under a name
    (`set`). The engine never sees a `set`: the store puts the set's values in its place first
    (`TaskSpec.with_sets`).
    """

    mode: Annotated[FilterMode, Field(strict=False)]
    values: Annotated[tuple[str, ...], Field(strict=False, min_length=1, max_length=MAX_VALUES)] | None = None
    regex: Annotated[str, StringConstraints(min_length=1)] | None = None
    set: Name | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        given = [name for name in ("values", "regex", "set") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                "a filter has either values or a regex or a set, "
                f"this one has {' and '.join(given) or 'none of them'}: "
                'give {values: ["304"]}, {regex: "^3"} or {set: eu_offices}'
            )
        if self.regex is not None:
            groups(self.regex)
        return self
