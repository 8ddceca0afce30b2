"""Values cut out of lines, each distinct expression once a batch.

A value column is kept as a dictionary: a code per line (the last code: nothing was extracted) and the
distinct values. Filters, escapes, limits and number parsing then look at distinct values only, which are few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.cut import Fields, cut, encode, stretches
from sluice.engine.fields import NamedFields, resolved
from sluice.metrics import Numbers
from sluice.runtime.arrays import Bools, Int32s
from sluice.tasks.extract import Extract, Filter, FilterMode
from sluice.tasks.topic_spec import TopicFormat, TopicSpec

_ASCII = 0x80
#: A measure's largest magnitude: sums of measures and of their squares never overflow, in any order.
LARGEST = 1e100
#: What counts as a number: not "nan", "inf", "1_000" or "0x10", which some parsers accept.
_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"


@dataclass(frozen=True)
class ExtractedValues:
    """One extracted value per line: `codes[i]` indexes `distinct`.

    The code `len(distinct)` says that the line has no value.
    """

    codes: Int32s
    distinct: pa.Array  # string, without nulls

    @cached_property
    def complete(self) -> bool:
        """Whether every line has a value."""
        return not len(self.codes) or int(self.codes.max()) < len(self.distinct)


def text(lines: pa.Array) -> pa.Array:
    """Lines (binary) as text: bytes that are not UTF-8 become U+FFFD, in those lines only."""
    try:
        return lines.cast(pa.string())
    except pa.ArrowInvalid:
        starts, ends, data = stretches(lines)
        beyond_ascii = np.flatnonzero(data[starts[0] : ends[-1]] >= _ASCII) + starts[0]
        suspects = np.unique(np.searchsorted(ends, beyond_ascii, side="right"))
        mask = np.zeros(len(lines), bool)
        mask[suspects] = True
        found = lines.take(pa.array(suspects)).to_pylist()
        repaired = pa.array([line.decode(errors="replace").encode() for line in found], pa.binary())
        return pc.replace_with_mask(lines, pa.array(mask), repaired).cast(pa.string())


class BatchLines:
    """The lines of one batch, and what was cut out of them so far."""

    def __init__(self, lines: pa.Array, fields: Mapping[str, Sequence[int]], topic: TopicSpec) -> None:
        """`fields`: for each delimiter, the indexes that expressions will take."""
        self.text = text(lines)
        self._fields = fields
        self._topic = topic
        self._split: dict[str, Fields] = {}
        self._named = NamedFields(self.text, topic)
        self._values: dict[Extract, ExtractedValues] = {}

    @property
    def is_json(self) -> bool:
        """Whether the lines are of a JSON topic."""
        return self._topic.format == TopicFormat.JSON

    def of_format(self) -> Bools | None:
        """Which lines are of the topic's format; None if all of them are that have a time."""
        return self._named.of_format()

    def values(self, extract: Extract) -> ExtractedValues:
        found = self._values.get(extract)
        if found is None:
            found = self._values[extract] = self._extract(extract)
        return found

    def _extract(self, extract: Extract) -> ExtractedValues:
        extract = resolved(extract, self._topic)
        if extract.delimiter is None and extract.field is None:
            return ExtractedValues(*encode(_match(self.text, extract)))
        if extract.regex is not None:
            # First by delimiter or name, then by regex: the pattern meets each distinct field once.
            fields = self.values(extract.model_copy(update={"regex": None, "group": None}))
            matched = ExtractedValues(*encode(_match(fields.distinct, extract)))
            codes = np.append(matched.codes, np.int32(len(matched.distinct)))
            return ExtractedValues(codes[fields.codes], matched.distinct)
        if extract.field is not None:
            return ExtractedValues(*self._named.column(extract.field))
        return self._field(extract.delimiter or "", extract.index or 0)

    def _field(self, delimiter: str, index: int) -> ExtractedValues:
        """The field at that index; lines with fewer fields have nothing."""
        if delimiter not in self._split or index not in self._split[delimiter].indexes:
            indexes = sorted({*self._fields.get(delimiter, ()), index})
            self._split[delimiter] = cut(self.text, delimiter, indexes)
        return ExtractedValues(*self._split[delimiter].column(index))


def _match(column: pa.Array, extract: Extract) -> pa.Array:
    strings = pl.Series(pl.from_arrow(column))
    return strings.str.extract(extract.regex or "", extract.capture).to_arrow().cast(pa.string())


def passing(values: ExtractedValues, filter_: Filter | None) -> Bools:
    """Whether each distinct value passes; the last entry, "nothing extracted", never does."""
    if filter_ is None:
        passed = np.ones(len(values.distinct), bool)
    else:
        if filter_.regex is not None:
            named = pl.Series(pl.from_arrow(values.distinct)).str.contains(filter_.regex).to_numpy()
        else:
            named = pc.is_in(values.distinct, pa.array(filter_.values, pa.string())).to_numpy(
                zero_copy_only=False
            )
        passed = named if filter_.mode == FilterMode.WHITE else ~named
    return np.append(passed, False)


def numbers(values: ExtractedValues) -> Numbers:
    """Each line's value as a number; NaN if it has none."""
    numeric = pc.match_substring_regex(values.distinct, _NUMBER)
    parsed = pl.Series(pl.from_arrow(pc.if_else(numeric, values.distinct, None))).cast(
        pl.Float64, strict=False
    )
    floats = parsed.to_arrow().to_numpy(zero_copy_only=False)  # null becomes NaN
    distinct = np.where(np.abs(floats) <= LARGEST, floats, np.nan)
    if values.complete:
        return Numbers(distinct[values.codes], distinct)
    distinct = np.append(distinct, np.nan)
    return Numbers(distinct[values.codes], distinct)
