"""What to answer for a name that does not exist: the names that are like it, or else all."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

#: The most names that are listed.
MOST = 20


def nearest(name: str, names: Iterable[str]) -> str:
    """A question for the names that are like this one; empty if none is."""
    close = get_close_matches(name, sorted(names))
    return f"did you mean {' or '.join(close)}?" if close else ""


def nearest_or_all(name: str, names: Iterable[str], kind: str) -> str:
    """The names that are like this one, or else all of their kind, such as topics."""
    there = sorted(names)
    rest = f" and {len(there) - MOST} more" if len(there) > MOST else ""
    listed = f"the {kind} are {', '.join(there[:MOST])}{rest}" if there else f"there are no {kind}"
    return nearest(name, there) or listed
