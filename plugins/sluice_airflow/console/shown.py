"""Numbers and times as pages show them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
#: Significant digits of a fraction that is shown.
_DIGITS = 5
#: Rounded numbers have no fraction from here on.
_WHOLE = 100


def number(value: object) -> str:
    """A number with its thousands apart: 12,345 or 0.012346; "–" for none."""
    if value is None:
        return "–"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.{_DIGITS}g}" if abs(value) < 10**_DIGITS else f"{value:,.0f}"
    if isinstance(value, int | float):
        return f"{value:,.0f}"
    return str(value)


def rounded(value: float | None) -> str:
    """A number in three digits, or in all before its point: 12,346 or 1.23; "–" for none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= _WHOLE or value == 0 else f"{value:,.3g}"


def iso(at: datetime | int) -> str:
    """A time for the attribute `datetime`; an int is in ms since 1970."""
    return _moment(at).isoformat(timespec="seconds").replace("+00:00", "Z")


def exact(at: datetime) -> str:
    """A time with all its digits, for an address."""
    return _moment(at).isoformat()


def utc(at: datetime | int) -> str:
    """A time in UTC, for people: 2015-05-17 10:05:00. Scripts turn it into the reader's own time zone."""
    return _moment(at).strftime("%Y-%m-%d %H:%M:%S")


def span(seconds: float) -> str:
    """A length of time in its two largest units: 3 h 5 min."""
    whole = round(seconds)
    days, rest = divmod(whole, _DAY)
    hours, rest = divmod(rest, _HOUR)
    minutes, left = divmod(rest, _MINUTE)
    units = [(days, "d"), (hours, "h"), (minutes, "min"), (left, "s")]
    first = next((index for index, (amount, _) in enumerate(units) if amount), len(units) - 1)
    return " ".join(f"{amount} {unit}" for amount, unit in units[first : first + 2] if amount) or "0 s"


def as_json(value: object) -> str:
    """A value as JSON, for the value of a button; templates escape it as any text."""
    return json.dumps(value, ensure_ascii=False)


def _moment(at: datetime | int) -> datetime:
    if isinstance(at, int):
        return datetime.fromtimestamp(at / 1000, UTC)
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
