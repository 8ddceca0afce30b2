"""Regular expressions that run in linear time, checked before any line meets them.

The engine is Rust's `regex`, through polars: a hostile pattern cannot hang a batch (java.util.regex and
Python's `re` can, by backtracking). A pattern that needs more than the engine can do (look-around,
back-references) is refused here, with the reason.
"""

from __future__ import annotations

import polars as pl
from polars.exceptions import PolarsError

#: People type patterns; a longer one is generated, and belongs in a list of values instead.
MAX_PATTERN = 1024

_HINTS = {
    "look-around": "look-ahead and look-behind need backtracking: describe what you want instead, "
    'e.g. capture it with a group, or use {mode: black} for "not"',
    "backreferences": "a back-reference (\\1) needs backtracking: spell the repeated part out",
    "size limit": "the pattern compiles to more than 10 MiB: use smaller repetition counts",
}


class BadPattern(ValueError):
    """A regular expression that the linear-time engine refuses."""


def groups(pattern: str) -> int:
    """How many capture groups `pattern` has; `BadPattern` if it does not compile."""
    if len(pattern) > MAX_PATTERN:
        raise BadPattern(
            f"the pattern has {len(pattern)} characters, {MAX_PATTERN} are allowed: "
            "shorten it, or list the values themselves"
        )
    try:
        pl.Series([""]).str.contains(pattern, strict=True)
        return len(pl.Series([""]).str.extract_groups(pattern).struct.fields)
    except PolarsError as error:
        raise BadPattern(f"{pattern!r} is no regular expression here: {_reason(str(error))}") from None


def _reason(message: str) -> str:
    """The one line of polars' message, a drawing of several lines, that says why."""
    message = message.partition("\n\nThis error occurred")[0]
    reason = (
        message.strip().splitlines()[-1].removeprefix("regex error: ").removeprefix("error: ").rstrip(".")
    )
    hint = next((hint for word, hint in _HINTS.items() if word in message), "")
    return f"{reason} ({hint})" if hint else reason
