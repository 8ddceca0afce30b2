"""Periods as people write them: "60s", "5m", "1h", "1d". They are aligned to UTC (the epoch)."""

from __future__ import annotations

import re

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PERIOD = re.compile(r"(\d{1,7})([smhd])")
LONGEST = 31 * 86400


class BadPeriod(ValueError):
    """A period that is none, or not between 1 s and 31 d."""


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
