"""Periods as people write them: "60s", "5m", "1h", "1d", aligned to UTC or to a time zone.

Aligned means counted from 1970-01-01T00:00 on the zone's wall clock, so a day begins at local midnight. Where
a zone changes its clock:

- periods of up to an hour follow the offset in force: an hour that the wall clock shows twice is two periods.
  If the change of the offset is not a multiple of the period (an hour in Lord Howe's half-hour summer time),
  a new period begins with the change, so that no period is longer than it says;
- longer periods follow the wall clock: a local day lasts 23, 24 or 25 hours. If the wall clock shows the
  start of a period twice, the earlier one counts; if it skips the start, the first instant after does.

Either way every instant lies in exactly one period, and periods follow each other without a gap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from sluice.runtime.arrays import Bools, Ints
from sluice.tasks.zones import Offsets, check_zone

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PERIOD = re.compile(r"([0-9]{1,7})([smhd])")
_HOUR = 3600
LONGEST = 31 * 86400
UTC = "UTC"


class BadPeriod(ValueError):
    """A text that is no period, or a period that is not between 1 s and 31 d."""


def parse_period(text: str) -> int:
    """The period's length in seconds."""
    match = _PERIOD.fullmatch(text)
    if match is None:
        raise BadPeriod(
            f'{text!r} is no period: write a number and one of s, m, h, d, for example "60s" or "1h"'
        )
    seconds = int(match[1]) * _SECONDS[match[2]]
    if not 1 <= seconds <= LONGEST:
        raise BadPeriod(f'{text!r} is {seconds} s long: a period lasts from "1s" to "31d"')
    return seconds


@dataclass(frozen=True)
class Period:
    """How time is cut into periods of `seconds`, aligned to `zone`.

    Instants are milliseconds since the epoch, in UTC.
    """

    seconds: int
    zone: str = UTC

    def __post_init__(self) -> None:
        if not 1 <= self.seconds <= LONGEST:
            raise BadPeriod(f"{self.seconds} s: a period lasts from 1 s to {LONGEST} s (31 d)")
        check_zone(self.zone)

    @property
    def ms(self) -> int:
        """The nominal length; a period in which the zone's clock changes is shorter or longer."""
        return self.seconds * 1000

    def starts(self, event_ms: Ints) -> Ints:
        """The start of each instant's period."""
        if self.zone == UTC:
            return event_ms // self.ms * self.ms
        if len(event_ms) == 0:
            return event_ms
        offsets = Offsets.around(self.zone, event_ms)
        steady = self._steady(offsets, int(event_ms.min()), int(event_ms.max()))
        if steady is not None:
            return (event_ms + steady) // self.ms * self.ms - steady
        if self.seconds > _HOUR:
            return offsets.instants(offsets.highest(event_ms) // self.ms * self.ms)
        stretch = offsets.stretch(event_ms)
        offset = offsets.offset[stretch]
        floor = (event_ms + offset) // self.ms * self.ms - offset
        return np.where(self._broken(offsets, stretch), np.maximum(floor, offsets.at[stretch]), floor)

    def ends(self, starts: Ints) -> Ints:
        """The start of the period after each given start."""
        if self.zone == UTC:
            return starts + self.ms
        if len(starts) == 0:
            return starts
        offsets = Offsets.around(self.zone, starts)
        if self.seconds > _HOUR:
            return offsets.instants((offsets.highest(starts) // self.ms + 1) * self.ms)
        stretch = offsets.stretch(starts)
        offset = offsets.offset[stretch]
        ceiling = (starts + offset) // self.ms * self.ms + self.ms - offset
        after = np.minimum(stretch + 1, len(offsets.at) - 1)
        cut = (offsets.at[after] > starts) & self._broken(offsets, after)
        return np.where(cut, np.minimum(ceiling, offsets.at[after]), ceiling)

    def start(self, event_ms: int) -> int:
        """The start of the instant's period."""
        return int(self.starts(np.array([event_ms], np.int64))[0])

    def end(self, start_ms: int) -> int:
        """The exclusive end of the period with this start, which is the start of the next one."""
        return int(self.ends(np.array([start_ms], np.int64))[0])

    def _steady(self, offsets: Offsets, first_ms: int, last_ms: int) -> int | None:
        """The offset in force from the start of the first instant's period to the last instant.

        None if the offset changes. On most days it does not, and then periods are as cheap as in UTC.
        """
        first, last = (int(n) for n in offsets.stretch(np.array([first_ms, last_ms], np.int64)))
        offset = int(offsets.offset[first])
        start = (first_ms + offset) // self.ms * self.ms
        shown_before = int(offsets.reached[first - 1]) if first > 0 else start
        steady = first == last and start >= shown_before and start - offset >= int(offsets.at[first])
        return offset if steady else None

    def _broken(self, offsets: Offsets, stretch: Ints) -> Bools:
        """Whether the periods of a stretch do not continue those of the stretch before it."""
        change = offsets.offset[stretch] - offsets.offset[np.maximum(stretch - 1, 0)]
        broken: Bools = change % self.ms != 0
        return broken
