"""Times as topics write them (`tasks.topic_spec`), for whole columns of texts.

Every format is one regular expression whose groups are named after what they hold (year, month, ... zone);
from there on, all formats are read the same way. Only a real date of the years 1970 to 9998 with a real time
of day is a time.
"""

from __future__ import annotations

import functools
import re

import numpy as np
import polars as pl
import pyarrow as pa

from sluice.runtime.arrays import Bools, Ints
from sluice.tasks.period import UTC
from sluice.tasks.topic_spec import TimeSpec
from sluice.tasks.zones import instants as instants_of

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
FIRST_YEAR, LAST_YEAR = 1970, 9998
HOURS, SIXTY = 24, 60
_DAY_MS = 86_400_000
_END_MS = 253_370_764_800_000  # 9999-01-01

_OFFSET = "(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)"
_GROUPS = {
    "Y": "(?P<year>[0-9]{4})",
    "m": "(?P<month>[0-9]{2})",
    "b": f"(?P<name>{'|'.join(MONTHS)})",
    "d": "(?P<day>[0-9]{2})",
    "H": "(?P<hour>[0-9]{2})",
    "M": "(?P<minute>[0-9]{2})",
    "S": "(?P<second>[0-9]{2})",
    "f": "(?P<fraction>[0-9]{1,9})",
    "z": _OFFSET,
    "%": "%",
}
#: The named formats as patterns; what no directive can say is written out.
_NAMED = {
    "apache": r"(?:^|\[){d}/{b}/{Y}:{H}:{M}:{S} (?P<zone>[+-][0-9]{{4}})(?:\]|$)",
    "iso8601": r"^{Y}-{m}-{d}[Tt ]{H}:{M}:{S}(?:[.,]{f})?{z}?$",
    "epoch_s": r"^(?P<epoch>[0-9]{{1,12}})(?:\.(?P<fraction>[0-9]+))?$",
    "epoch_ms": r"^(?P<epoch>[0-9]{{1,15}})(?:\.[0-9]+)?$",
}


def read_times(texts: pa.Array, time: TimeSpec) -> tuple[Ints, Bools]:
    """Times in ms since the epoch (0 if none), and which texts are one; `texts` has no nulls."""
    found = pl.Series(pl.from_arrow(texts)).str.extract_groups(_pattern(time.format)).struct
    parts = {name: found.field(name) for name in found.fields}
    if time.format == "epoch_ms":
        return _bounded(*_number(parts["epoch"]))
    if time.format == "epoch_s":
        ms, valid = _number(parts["epoch"])
        return _bounded(ms * 1000 + _milliseconds(parts["fraction"]), valid)
    year, found_one = _number(parts["year"])  # the pattern matched if this group is there
    if "name" in parts:
        names = parts["name"].replace_strict(list(MONTHS), list(range(1, 13)), default=0)
        month = names.fill_null(0).to_numpy().astype(np.int64)
    else:
        month, _ = _number(parts["month"])
    day, hour, minute, second = (_number(parts[name])[0] for name in ("day", "hour", "minute", "second"))
    ms, valid = instants(year=year, month=month, day=day, hour=hour, minute=minute, second=second)
    valid &= found_one
    if "fraction" in parts:
        ms = ms + _milliseconds(parts["fraction"])
    ahead, zoned, real = _offsets(parts.get("zone"), len(ms))
    local = np.flatnonzero(valid & ~zoned)
    ms = np.where(zoned, ms - ahead, ms)
    if len(local) and time.assumed_zone != UTC:
        ms[local] = instants_of(time.assumed_zone, ms[local])
    valid &= real
    return np.where(valid, ms, 0), valid


def instants(
    *, year: Ints, month: Ints, day: Ints, hour: Ints, minute: Ints, second: Ints
) -> tuple[Ints, Bools]:
    """Dates and times, which need not be real, as ms since the epoch, and which are real."""
    valid: Bools = (month >= 1) & (month <= len(MONTHS)) & (year >= FIRST_YEAR) & (year <= LAST_YEAR)
    valid &= (hour < HOURS) & (minute < SIXTY) & (second < SIXTY)
    # numpy's calendar: months since the epoch, then the first days of this month and of the next.
    months = np.where(valid, (year - 1970) * 12 + month - 1, 0)
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    after = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    valid &= (day >= 1) & (day <= after - first)
    seconds = hour * 3600 + minute * 60 + second
    return np.where(valid, (first + day - 1) * _DAY_MS + seconds * 1000, 0), valid


@functools.lru_cache(maxsize=256)
def _pattern(format_: str) -> str:
    if format_ in _NAMED:
        return _NAMED[format_].format(**_GROUPS)
    parts = re.split(r"%(.)", format_, flags=re.DOTALL)
    literals, directives = parts[::2], parts[1::2]
    pieces = [re.escape(literals[0])]
    for directive, literal in zip(directives, literals[1:], strict=True):
        pieces += [_GROUPS[directive], re.escape(literal)]
    return f"^{''.join(pieces)}$"


def _number(digits: pl.Series) -> tuple[Ints, Bools]:
    """Decimal digits as numbers (0 if there are none), and where there are some."""
    numbers = digits.cast(pl.Int64)
    return numbers.fill_null(0).to_numpy(), numbers.is_not_null().to_numpy()


def _milliseconds(fraction: pl.Series) -> Ints:
    """The digits of a fraction of a second as whole milliseconds."""
    return _number((fraction + "000").str.slice(0, 3))[0]


def _offsets(zone: pl.Series | None, size: int) -> tuple[Ints, Bools, Bools]:
    """How many ms each stamp is ahead of UTC, which stamps say so, and which are in bounds."""
    if zone is None:
        return np.zeros(size, np.int64), np.zeros(size, bool), np.ones(size, bool)
    digits = zone.str.extract(r"^[+-]([0-9]{2}:?(?:[0-9]{2})?)$", 1).str.replace(":", "", literal=True)
    hours, _ = _number(digits.str.slice(0, 2))
    # An offset of hours alone has an empty text for its minutes.
    minutes, _ = _number((digits.str.slice(2) + "00").str.slice(0, 2))
    sign = np.where(zone.str.starts_with("-").fill_null(False).to_numpy(), -1, 1)
    ahead = sign * (hours * 60 + minutes) * 60_000
    given = zone.is_not_null().to_numpy() & (zone != "").fill_null(False).to_numpy()
    return ahead, given, (hours < HOURS) & (minutes < SIXTY)


def _bounded(ms: Ints, valid: Bools) -> tuple[Ints, Bools]:
    valid = valid & (ms < _END_MS)
    return np.where(valid, ms, 0), valid
