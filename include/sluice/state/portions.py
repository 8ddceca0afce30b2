"""Work cut into portions whose size in bytes is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


def portions(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """The items in order, in portions of at most `most` bytes; a larger item stands alone."""
    portion: list[T] = []
    total = 0
    for item in items:
        own = size(item)
        if portion and total + own > most:
            yield portion
            portion, total = [], 0
        portion.append(item)
        total += own
    if portion:
        yield portion


class _Pointer(Protocol):
    @property
    def bytes(self) -> int: ...


P = TypeVar("P", bound=_Pointer)

# The size of the blocks in one request, by their pointers; a row also holds columns not deleted yet.
BYTES_A_GET = 8 << 20


def read_portions(pointers: Iterable[P]) -> Iterator[list[P]]:
    """Pointers to blocks, in portions that one request to HBase can carry."""
    return portions(pointers, lambda pointer: pointer.bytes, BYTES_A_GET)
