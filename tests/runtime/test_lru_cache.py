"""What is kept is bounded, made once, and never wrong."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.lru_cache import LruCache
from sluice_lab.waiting import SECONDS


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40))), st.integers(0, 100))
def test_what_is_kept_never_exceeds_the_bound_and_is_what_was_put(
    puts: list[tuple[int, int]], most: int
) -> None:
    kept: LruCache[int, bytes] = LruCache(len, most)
    given: dict[int, bytes] = {}
    for key, size in puts:
        if kept.get(key) is None:
            given[key] = bytes(size)
        kept.put(key, bytes(size))
        assert kept.bytes <= most
    there = {key: value for key in range(10) if (value := kept.get(key)) is not None}
    assert sum(map(len, there.values())) == kept.bytes
    assert there.items() <= given.items()


def test_what_was_used_last_stays() -> None:
    kept: LruCache[str, bytes] = LruCache(len, 20)
    kept.put("a", bytes(10))
    kept.put("b", bytes(10))
    assert kept.get("a") is not None
    kept.put("c", bytes(10))
    assert [kept.get(name) is not None for name in "abc"] == [True, False, True]


def test_what_is_too_large_drives_nothing_else_out() -> None:
    kept: LruCache[str, bytes] = LruCache(len, 20)
    kept.put("a", bytes(10))
    kept.put("b", bytes(21))
    assert (kept.get("a"), kept.get("b")) == (bytes(10), None)


def test_threads_that_want_the_same_wait_for_the_one_that_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: LruCache[str, bytes] = LruCache(len, 5)  # too little to keep it: those who wait get it all the same
    made: list[int] = []
    waits = threading.Semaphore(0)

    class Awaited(Future[bytes]):
        def result(self, timeout: float | None = None) -> bytes:
            waits.release()
            return super().result(timeout)

    monkeypatch.setattr("sluice.runtime.lru_cache.Future", Awaited)

    def make() -> bytes:
        made.append(1)
        for _ in range(3):  # a thread that came later would make it again
            assert waits.acquire(timeout=SECONDS)
        return bytes(10)

    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(kept.made("a", make))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert (found, made, kept.bytes) == ([bytes(10)] * 4, [1], 0)


def test_what_could_not_be_made_is_tried_again() -> None:
    kept: LruCache[str, bytes] = LruCache(len, 5)

    def fail() -> bytes:
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        kept.made("a", fail)
    assert kept.made("a", lambda: b"x") == b"x"
    assert kept.made("a", fail) == b"x"
