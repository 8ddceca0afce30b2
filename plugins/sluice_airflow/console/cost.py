"""What an answer costs the server, which the answer tells: pages ask the less often, the more it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def timed(make: Callable[[], T]) -> tuple[T, float]:
    """What was made, and the seconds of CPU that the server spent meanwhile.

    They are those of all threads, because Arrow computes in threads of its own. What others ask at the same
    time counts too, so pages ask less often while the server is busy.
    """
    begun = time.process_time()
    return make(), time.process_time() - begun


def told(seconds: float) -> dict[str, str]:
    """The header that tells it."""
    return {"Server-Timing": f"cpu;dur={1000 * seconds:.1f}"}
