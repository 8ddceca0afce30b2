"""Waiting for a condition: the one way in which tests wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Long enough for a machine that does much else.
SECONDS = 180.0
POLL_SECONDS = 0.1


def until(
    true: Callable[[], T | None],
    seconds: float = SECONDS,
    what: str | Callable[[], object] = "",
    poll: float = POLL_SECONDS,
) -> T:
    """Wait until it is true, and return it.

    what: what is waited for, or what says how things are now; an AssertionError says it after so many
    seconds. poll: how long to wait between two looks.
    """
    deadline = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what() if callable(what) else what or true}")
        time.sleep(poll)
    return found
