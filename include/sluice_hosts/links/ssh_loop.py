"""The loop on which all SSH connections of this process live, in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_guard = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process, because a fork takes no threads along


def loop() -> asyncio.AbstractEventLoop:
    """The process's loop; the first call starts it."""
    with _guard:
        found = _loops.get(os.getpid())
        if found is None:
            found = asyncio.new_event_loop()
            threading.Thread(target=found.run_forever, name="ssh", daemon=True).start()
            _loops[os.getpid()] = found
        return found


def wait(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Do the work on the loop; any thread may wait for it. Raises TimeoutError."""
    return asyncio.run_coroutine_threadsafe(work, loop()).result(seconds)
