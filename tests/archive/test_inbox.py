"""Records are taken together where they come together, and never across an epoch."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from sluice.archive.inbox import MESSAGE_BYTES, OUT_OF_RANGE, TOGETHER_BYTES, WAITING_BYTES, Inbox
from sluice_lab.bench.headers import Headers

LONG = 30.0


@dataclass
class Sent:
    """A message without a broker."""

    offset: int
    value: bytes | None = b"x"
    timestamp: int = 0
    headers: Headers = field(default_factory=list)
    unreadable: str | None = None
    last: int | None = None


def offsets(inbox: Inbox, wait: float = LONG, together: float = 0.0) -> tuple[int, list[int]] | None:
    item = inbox.take(wait, together)
    return None if item is None else (item[0], [message.offset for message in item[1]])


def test_records_that_wait_are_taken_together_and_in_order() -> None:
    inbox = Inbox()
    for n in range(5):
        inbox.put(1, [Sent(2 * n), Sent(2 * n + 1)])
    inbox.end()
    assert offsets(inbox, together=LONG) == (1, list(range(10)))
    assert offsets(inbox, wait=0.0) is None


def test_records_that_come_a_little_later_are_taken_too() -> None:
    inbox = Inbox()
    inbox.put(1, [Sent(0)])

    def later() -> None:
        time.sleep(0.1)
        inbox.put(1, [Sent(1)])
        inbox.end()

    threading.Thread(target=later).start()
    assert offsets(inbox, together=LONG) == (1, [0, 1])


def test_records_of_another_epoch_are_taken_apart() -> None:
    inbox = Inbox()
    inbox.put(1, [Sent(7)])
    inbox.put_out_of_range()
    inbox.put(2, [Sent(3)])
    inbox.put(2, [Sent(4)])
    inbox.end()
    assert offsets(inbox, together=LONG) == (1, [7])
    assert inbox.take(LONG) is OUT_OF_RANGE
    assert offsets(inbox, together=LONG) == (2, [3, 4])


def test_no_more_than_some_bytes_are_taken_together() -> None:
    inbox = Inbox()
    half = [Sent(0, bytes(TOGETHER_BYTES // 2))]
    for _ in range(4):
        inbox.put(1, half)
    taken = inbox.take(LONG, LONG)
    assert taken is not None
    assert len(taken[1]) == 2


def test_it_is_full_until_what_waits_was_taken() -> None:
    inbox = Inbox()
    assert not inbox.full()
    inbox.put(1, [Sent(0, bytes(WAITING_BYTES - MESSAGE_BYTES))])
    assert inbox.full()
    inbox.take(LONG, 0.0)
    assert not inbox.full()


def test_after_the_end_nobody_waits() -> None:
    inbox = Inbox()
    inbox.put(1, [Sent(0)])
    inbox.end()
    assert offsets(inbox, together=LONG) == (1, [0])
    assert offsets(inbox) is None
    inbox.put(1, [Sent(1)])  # what was under way is still taken
    assert offsets(inbox) == (1, [1])


# NEEDS
