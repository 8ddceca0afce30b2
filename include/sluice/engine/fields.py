"""The named fields of a topic's lines, by format: whole columns, as dictionaries.

Lines that do not have a field have the code for nothing.

- combined: one pass over the lines finds all fields of an access log, whichever are asked for, by a kernel
  or, of few lines, by regular expressions;
- delimited: a column's name stands for its index (`resolved`), so that both are one expression;
- json: one object a line, parsed by serde (Rust) once for each field. The value of a string is its text, and
  of anything else its JSON (a number as JSON's parsers write it: 1.10 is 1.1). A null, a missing key and a
  line that is not JSON give nothing. Documents deeper than 128 levels do not count as JSON.
"""

from __future__ import annotations

import itertools

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.access_log import CompiledAccessLog, named
from sluice.engine.cut import COMPILED_LINES, Encoded, encode
from sluice.runtime.arrays import Bools
from sluice.tasks.extract import Extract
from sluice.tasks.topic_spec import TopicFormat, TopicSpec, is_index, json_path


class NoSuchField(ValueError):
    """A field that the topic's format does not name."""


def resolved(extract: Extract, topic: TopicSpec) -> Extract:
    """The extraction; by delimiter if it names a column of a delimited topic."""
    if extract.field is None or topic.format != TopicFormat.DELIMITED or extract.field not in topic.columns:
        return extract
    return extract.model_copy(
        update={"field": None, "delimiter": topic.delimiter, "index": topic.index(extract.field)}
    )


class NamedFields:
    """The named fields of one batch of lines."""

    def __init__(self, text: pa.Array, topic: TopicSpec) -> None:
        self._text, self._topic = text, topic
        self._combined: CompiledAccessLog | dict[str, pa.Array] | None = None
        self._series: pl.Series | None = None

    def column(self, field: str) -> Encoded:
        """The field of every line. Raises NoSuchField.

        Fields of a delimited topic must be `resolved` before.
        """
        problem = self._topic.unknown_field(Extract(field=field))
        if problem or self._topic.format == TopicFormat.DELIMITED:
            raise NoSuchField(problem or f"column {field!r} is cut out by its delimiter")
        return (
            encode(self._json(field)) if self._topic.format == TopicFormat.JSON else self._access_log(field)
        )

    def of_format(self) -> Bools | None:
        """Which lines are of the topic's format; None if every line is that has a time.

        A line of a JSON topic whose time is a field is JSON, or it would have no time.
        """
        topic = self._topic
        at = topic.time.extract if topic.time is not None else None
        if topic.format == TopicFormat.COMBINED:
            cut = self._cut()
            if isinstance(cut, CompiledAccessLog):
                return cut.found
            fits: Bools = pc.is_valid(cut["client"]).to_numpy(zero_copy_only=False)
            return fits
        if topic.format == TopicFormat.JSON:
            if at is not None and at.field is not None:
                return None
            parsed: Bools = self._parsed().str.json_path_match("$").is_not_null().to_numpy()
            return parsed
        last = len(topic.columns) - 1
        if at is not None and (at.field == topic.columns[last] or not last):
            return None
        delimiters = pc.count_substring(self._text, topic.delimiter).to_numpy(zero_copy_only=False)
        found: Bools = delimiters >= last
        return found

    def _cut(self) -> CompiledAccessLog | dict[str, pa.Array]:
        if self._combined is None:
            compiled = len(self._text) >= COMPILED_LINES
            self._combined = CompiledAccessLog(self._text) if compiled else named(self._text)
        return self._combined

    def _access_log(self, field: str) -> Encoded:
        cut = self._cut()
        if isinstance(cut, CompiledAccessLog):
            return cut.column(field)
        values = cut[field]
        return encode(pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values))

    def _json(self, field: str) -> pa.Array:
        parsed = self._parsed()
        first, *others = (parsed.str.json_path_match(path).to_arrow() for path in _paths(field))
        return pc.coalesce(first, *others).cast(pa.string())

    def _parsed(self) -> pl.Series:
        if self._series is None:
            self._series = pl.Series(pl.from_arrow(self._text))
        return self._series


def _paths(field: str) -> list[str]:
    """The JSONPaths that a field can mean, the likeliest first."""
    keys = [[f"[{_quoted(key)}]", *([f"[{int(key)}]"] if is_index(key) else [])] for key in json_path(field)]
    return ["$" + "".join(steps) for steps in itertools.product(*keys)]


def _quoted(key: str) -> str:
    quote = "'" if '"' in key else '"'  # never both: `json_path` refuses that
    return f"{quote}{key}{quote}"
