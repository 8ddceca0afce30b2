"""Local time of a time zone, for whole columns of instants at once.

zoneinfo answers for one instant at a time and has no public table of changes. Here the changes of each year
that a batch touches are found once (by asking for every day's first instant, then by bisection) and kept;
whole columns are then looked up in them. Instants and local times are int64 milliseconds: since the epoch,
and since 1970-01-01T00:00 on the wall clock.
"""

from __future__ import annotations

import datetime as dt
import functools
import zoneinfo
from dataclasses import dataclass

import numpy as np

from sluice.runtime.arrays import Ints

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY = 86400
_YEAR_MS = int(365.2425 * _DAY * 1000)
#: Outside these years, the offset of the nearest of them is used (datetime ends with 9999).
_FIRST_YEAR, _LAST_YEAR = 2, 9998
_MANY_YEARS = 8
#: The calendar and its weekdays repeat every 400 years; from `_BY_RULE` on, zones follow their last rule.
_CYCLE, _CYCLE_DAYS, _BY_RULE = 400, 146_097, 2101


class BadZone(ValueError):
    """A time zone that is not in the IANA database."""


@functools.lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def check_zone(name: str) -> str:
    """The name, if the IANA database has it; `BadZone` if not."""
    if name not in _names():
        raise BadZone(
            f"time zone {name!r} is not known: use a name of the IANA database, e.g. UTC or Europe/Berlin"
        )
    return name


@dataclass(frozen=True)
class Offsets:
    """Stretches of one offset each: stretch i is [at[i], at[i + 1]), ahead of UTC by offset[i].

    `reached[i]` is the highest local time shown before stretch i ends, exclusive.
    """

    at: Ints
    offset: Ints
    reached: Ints

    @classmethod
    def around(cls, zone: str, instants: Ints) -> Offsets:
        """The stretches in the years of these instants and in the years before and after."""
        first, last = (int(y) // _YEAR_MS + _EPOCH.year for y in (instants.min(), instants.max()))
        years = np.arange(first, last + 1)
        if len(years) > _MANY_YEARS:  # a line of 1995 among those of today
            years = np.unique(instants // _YEAR_MS) + _EPOCH.year
        wanted = np.unique(np.clip(np.concatenate([years - 1, years, years + 1]), _FIRST_YEAR, _LAST_YEAR))
        found = [_changes(zone, int(year)) for year in wanted]
        at = np.concatenate([a for a, _ in found])
        offset = np.concatenate([o for _, o in found])
        changed = np.append(True, offset[1:] != offset[:-1])
        at, offset = at[changed], offset[changed]
        reached = np.maximum.accumulate(np.append(at[1:] + offset[:-1], np.iinfo(np.int64).max))
        return cls(at, offset, reached)

    def stretch(self, instants: Ints) -> Ints:
        """The stretch that each instant lies in."""
        return np.maximum(np.searchsorted(self.at, instants, side="right") - 1, 0)

    def local(self, instants: Ints) -> Ints:
        """What the wall clock shows at each instant."""
        shown: Ints = instants + self.offset[self.stretch(instants)]
        return shown

    def highest(self, instants: Ints) -> Ints:
        """The latest local time that the wall clock has shown by each instant.

        That is later than the current local time if the clock was set back.
        """
        stretch = self.stretch(instants)
        before = np.where(stretch > 0, self.reached[stretch - 1] - 1, np.iinfo(np.int64).min)
        shown: Ints = np.maximum(instants + self.offset[stretch], before)
        return shown

    def instants(self, local: Ints) -> Ints:
        """The instant at which the wall clock first shows each local time, or a later one.

        Of two such instants this is the earlier; for a time in a gap, it is the end of the gap.
        """
        stretch = np.searchsorted(self.reached, local, side="right")
        # The first known stretch is taken to have no beginning.
        begins = np.where(stretch > 0, self.at[stretch], np.iinfo(np.int64).min)
        first: Ints = np.maximum(begins, local - self.offset[stretch])
        return first


def instants(zone: str, local: Ints) -> Ints:
    """The instants of local times.

    Of two possible instants this is the earlier; for a time that was skipped, it is the end of the gap.
    """
    return Offsets.around(zone, local).instants(local) if len(local) else local


@functools.lru_cache(maxsize=32768)
def _changes(zone: str, year: int) -> tuple[Ints, Ints]:
    """When the zone's offset changes within the year, and to what, both in ms.

    The begin of the year counts as a change.
    """
    cycles = (year - _BY_RULE) // _CYCLE
    if cycles > 0:
        at, offsets = _changes(zone, year - cycles * _CYCLE)
        return at + cycles * _CYCLE_DAYS * _DAY * 1000, offsets
    info = zoneinfo.ZoneInfo(zone)

    def offset(second: int) -> int:
        found = (_EPOCH + dt.timedelta(seconds=second)).astimezone(info).utcoffset()
        return round((found or dt.timedelta()).total_seconds())

    begin = (dt.date(year, 1, 1) - _EPOCH.date()).days * _DAY
    end = (dt.date(year + 1, 1, 1) - _EPOCH.date()).days * _DAY
    changes = [(begin, offset(begin))]
    for day in range(begin + _DAY, end + _DAY, _DAY):
        after = offset(day)
        if after == changes[-1][1]:
            continue
        low, high = day - _DAY, day  # offset(low) is the old one, offset(high) is not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == changes[-1][1] else (low, middle)
        if high < end:
            changes.append((high, after))
    table = np.array(changes, np.int64) * 1000
    return table[:, 0], table[:, 1]
