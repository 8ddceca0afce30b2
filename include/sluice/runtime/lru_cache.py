"""A cache of values made from things that never change, within a bound of memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from typing import Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by their keys; what was used last stays. May be shared between threads.

    A key must name its value for ever: what is kept is never looked at again. `most`: bytes of all values
    together, as `size` counts them. A value larger than that is made and not kept.
    """

    def __init__(self, size: Callable[[V], int], most: int) -> None:
        self._values: LRUCache[K, V] = LRUCache(most, size)
        self._making: dict[K, Future[V]] = {}
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """What the kept values have together."""
        return int(self._values.currsize)

    def get(self, key: K) -> V | None:
        """The value, if it is kept."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value, unless it is too large; one that is there stays."""
        with self._lock, suppress(ValueError):  # too large
            self._values.setdefault(key, value)

    def made(self, key: K, make: Callable[[], V]) -> V:
        """The kept value, else what `make` returns.

        Threads that ask for it meanwhile wait for the one that makes it, and get what it raises.
        """
        with self._lock:
            if key in self._values:
                return self._values[key]
            ours = key not in self._making
            future = self._making.setdefault(key, Future())
        if not ours:
            return future.result()
        try:
            value = make()
            self.put(key, value)
        except BaseException as error:
            future.set_exception(error)
            raise
        else:
            future.set_result(value)
            return value
        finally:
            with self._lock:
                del self._making[key]
