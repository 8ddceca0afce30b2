from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluice.runtime.thread_dump import dump_on_signal


@pytest.fixture
def dumping() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    dump_on_signal()
    yield
    signal.signal(signal.SIGUSR1, before)


def deep(calls: int) -> int:
    return calls and 1 + deep(calls - 1)


@pytest.mark.usefixtures("dumping")
def test_a_process_says_where_its_threads_are_and_goes_on(capfd: pytest.CaptureFixture[str]) -> None:
    """Also while they call and return all the time."""
    ended = threading.Event()

    def busy() -> None:
        while not ended.is_set():
            deep(50)

    with ThreadPoolExecutor(4, "busy") as pool:
        working = [pool.submit(busy) for _ in range(4)]
        for _ in range(50):
            signal.raise_signal(signal.SIGUSR1)
        ended.set()
        assert [each.result() for each in working] == [None] * 4
    said = capfd.readouterr().err
    assert said.count("Thread MainThread (most recent call last):") == 50
    assert "Thread busy_3 (most recent call last):" in said
    assert "in test_a_process_says_where_its_threads_are_and_goes_on" in said
    assert "in deep" in said
