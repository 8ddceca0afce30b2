"""Something that goes on beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(do: Callable[[], object], seconds: float) -> Iterator[None]:
    """Do it again and again in a thread, as long as the block lasts, with so many seconds in between."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(seconds):
            do()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
