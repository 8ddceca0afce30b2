"""Retries and pauses that double after each failure."""

from __future__ import annotations

from collections.abc import Callable

from tenacity import Retrying, retry_if_exception, stop_before_delay, wait_exponential


def patient(
    seconds: float, again: Callable[[BaseException], bool], *, first: float, longest: float
) -> Retrying:
    """A retrier that repeats a call while `again` accepts its error.

    It begins no attempt after `seconds`. The first pause lasts `first` seconds, and each further one twice as
    long as the one before, but at most `longest`. The error of the last attempt is raised.
    """
    return Retrying(
        retry=retry_if_exception(again),
        wait=wait_exponential(first, longest),
        stop=stop_before_delay(seconds),
        reraise=True,
    )


class Backoff:
    """The pause in seconds after each failure: first `first`, then doubled up to `longest`.

    It is for loops that never give up. For calls that do, use `patient`.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        self._next = first

    def pause(self) -> float:
        """How long to pause now; the next pause is longer."""
        now, self._next = self._next, min(2 * self._next, self._longest)
        return now

    def reset(self) -> None:
        """Start again with the first pause."""
        self._next = self._first
