"""Where periods come from, read once for all questions between two changes of the database.

PostgreSQL says which transactions a reader sees (`Finals.moment`). Two readers that see the same transactions
see the same database, whatever it holds. So what one of them read holds for the other as well.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import Protocol

from sluice.runtime.lru_cache import LruCache
from sluice.storage.tables.commits import Version
from sluice.storage.tables.finals import Sides

#: Windows of time that are kept, of all versions.
WINDOWS = 64
#: Longer times than this (35 years) are asked for as they are.
_LONGEST = 1 << 40


class Book(Protocol):
    """What is asked of `storage.tables.finals.Finals`."""

    def moment(self) -> str: ...

    def sides(self, version: Version, since: int, until: int) -> Sides: ...


class KnownSides:
    """The sides that were read last. May be shared between threads."""

    def __init__(self) -> None:
        self._kept: LruCache[tuple[str, Version, int, int], Sides] = LruCache(lambda _: 1, WINDOWS)

    def of(self, book: Book, version: Version, since: int, until: int) -> Sides:
        """The same as `book.sides`, as of a moment not before this call."""
        first, last = window(since, until)
        moment = book.moment()
        # After a commit many ask at once: one reads. What it reads is as of this moment or a later one, and
        # no call that sees this moment comes after a later one.
        known = self._kept.made((moment, version, first, last), lambda: book.sides(version, first, last))
        self._kept.put((known.moment, version, first, last), known)
        return cut(known, since, until)


def window(since: int, until: int) -> tuple[int, int]:
    """A time around [since, until), at most four times as long, which times like it have in common."""
    length = until - since
    if not 0 < length <= _LONGEST:
        return since, until
    size = 1 << (length - 1).bit_length()
    return since // size * size, -(-until // size) * size


def cut(sides: Sides, since: int, until: int) -> Sides:
    """The sides of a part of their time."""
    final = tuple(each for each in sides.final if each.first < until and each.until > since)
    starts = sides.open[bisect_left(sides.open, since) : bisect_left(sides.open, until)]
    superseded = sides.superseded & {each.first for each in final}
    recounted = frozenset(start for start in sides.recounted if since <= start < until)
    sides = replace(sides, final=final, superseded=superseded, recounted=recounted)
    if len(starts) == len(sides.open):
        return sides
    return replace(
        sides,
        open=starts,
        state={start: sides.state[start] for start in starts if start in sides.state},
        filled={start: sides.filled[start] for start in starts if start in sides.filled},
    )
