"""What commands that query are asked, refused by the names of their options."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sluice.results.written_query import BadMoment, BadText, moment

if TYPE_CHECKING:
    from pydantic import ValidationError

#: Which option gives a part of a query, or a field of one.
_PARTS = {"Query": "", "LinesQuery": "", "Where": "where", "Top": "top", "Order": "sort"}
_FIELDS = {"dimensions": "rollup", "period": "rollup", "order": "sort", "metrics": "metric"}


class BadOption(ValueError):
    """An option's value that could not be read, or an option that does not go with another."""


def time_option(option: str, text: str | None) -> int | None:
    """The option's time in ms since the epoch. Raises BadOption."""
    try:
        return moment(text)
    except BadMoment as error:
        raise BadOption(f"--{option}: {error}") from None


def span(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """What --from and --to say, in ms since the epoch. Raises BadOption."""
    begin, end = time_option("from", since), time_option("to", until)
    if begin is not None and end is not None and begin > end:
        raise BadOption(f"--from {since} is after --to {until}: swap them")
    return begin, end


#: Seconds of the units that a duration may have.
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def ago(option: str, text: str) -> dt.datetime:
    """When it was so long ago as the option says: 90s, 30m, 1h, 7d. Raises BadOption."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if found is None:
        raise BadOption(f"--{option}: {text[:100]!r} is no duration: write 90s, 30m, 1h or 7d")
    return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def at_ms(ms: int | None) -> dt.datetime | None:
    """A time in ms since the epoch, in UTC."""
    return None if ms is None else dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=ms)


def arrival(begin: str | None, end: str | None, since: str) -> tuple[dt.datetime | None, dt.datetime | None]:
    """What --from and --to, or --since, say of when lines arrived. Raises BadOption."""
    first, until = map(at_ms, span(begin, end))
    if since and first is not None:
        raise BadOption("--since and --from: give one of them")
    return ago("since", since) if since else first, until


@contextmanager
def naming(options: Mapping[str, object]) -> Iterator[None]:
    """Name the option and its value in what is refused. Raises BadOption and BadQuery.

    options: what was written, by the options' names without their dashes.
    """
    from pydantic import ValidationError

    from sluice.results.query import BadQuery

    try:
        yield
    except BadText as error:
        raise BadOption(f"--{error}") from None
    except ValidationError as error:
        if error.title not in _PARTS:  # what is stored, and not what was asked
            raise
        raise BadOption(_invalid(error, options)) from None
    except BadQuery as error:
        field, _, said = str(error).partition(": ")
        raise BadQuery(f"{_shown(field, options)}: {said}") from None


def _invalid(error: ValidationError, options: Mapping[str, object]) -> str:
    first = error.errors()[0]
    place = str(first["loc"][0]) if first["loc"] else ""
    said = first["msg"].removeprefix("Value error, ").removeprefix(f"{place}: ")
    return f"{_shown(_PARTS[error.title] or place, options, str(first['input']))}: {said}"


def _shown(field: str, options: Mapping[str, object], part: str = "") -> str:
    """The option that gives the field, and its value: of several, those that have the part in them."""
    option = field if field in options else _FIELDS.get(field, field)
    value = options.get(option)
    texts = list(map(str, value)) if isinstance(value, list) else [str(value)]
    return f"--{option} {' '.join(repr(each) for each in texts if part in each) or repr(texts)}"
