"""Pauses that double from one failure to the next."""

from __future__ import annotations


class Backoff:
    """The pause after each failure, in seconds: `first`, then twice the one before, at most `longest`.

    It is for loops that never give up. A call that does, after some tries or seconds, takes `tenacity`.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        self._next = first

    def pause(self) -> float:
        """How long to pause now; the next pause is longer."""
        now, self._next = self._next, min(2 * self._next, self._longest)
        return now

    def reset(self) -> None:
        """Begin with the first pause again."""
        self._next = self._first
