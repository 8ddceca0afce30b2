"""What goes into the next file of the archive."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from sluice.archive.buffer import Buffer
from sluice.archive.inbox import MESSAGE_BYTES
from sluice.archive.session import POLL_BYTES, POLL_RECORDS, fitting
from sluice.runtime.sections import Archive
from tests.archive.test_file import blocks
from tests.messages import Message


@pytest.mark.parametrize(("most", "taken"), [(1, 3), (2, 3), (3, 3), (4, 4), (5, 6), (6, 6), (7, 6)])
def test_a_file_takes_whole_records(most: int, taken: int) -> None:
    batch, buffer = blocks({5: 3, 6: 1, 9: 2}), Buffer(Archive(max_lines=most))
    rest = buffer.add(batch)
    assert (buffer.lines, len(rest)) == (taken, 6 - taken)
    assert pa.concat_batches([*buffer.batches, rest]).equals(batch)
    assert buffer.due() == (most <= 6)


def test_a_file_is_due_when_its_lines_have_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.archive.buffer.FILE_BYTES", 1_000)
    buffer = Buffer(Archive())
    buffer.add(blocks({5: 1}))
    assert not buffer.due()
    buffer.add(blocks({6: 9}))
    assert buffer.due()


@pytest.mark.parametrize(("size", "most"), [(10, 6_932), (65_536, 125), (16 << 20, 1)])
def test_a_poll_asks_for_so_many_records_as_memory_is_meant_for(size: int, most: int) -> None:
    polled: Sequence[Message] = [Message(n, b"x" * size, []) for n in range(3)]
    assert fitting([polled, polled]) == most == max(1, POLL_BYTES // (size + MESSAGE_BYTES))
    assert fitting([[Message(0, None, [])] * 2]) <= POLL_RECORDS
