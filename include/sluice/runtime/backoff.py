"""Pauses that double from one failure to the next."""

from __future__ import annotations

from collections.abc import Callable

from tenacity import Retrying, retry_if_exception, stop_before_delay, wait_exponential


def patient(
    seconds: float, again: Callable[[BaseException], bool], *, first: float, longest: float
) -> Retrying:
    """Repeats a call while `again` says so of what it raised, but begins no try after `seconds`.

    The pauses are `first` seconds, then twice the one before, at most `longest`. What the last try raised is
    raised.
    """
    return Retrying(
        retry=retry_if_exception(again),
        wait=wait_exponential(first, longest),
        stop=stop_before_delay(seconds),
        reraise=True,
    )


class Backoff:
    """The pause after each failure, in seconds: `first`, then twice the one before, at most `longest`.

    It is for loops that never give up; a call that does is `patient`.
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
