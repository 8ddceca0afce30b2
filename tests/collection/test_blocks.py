"""An edge agent's source makes blocks of files, and the contract makes the files' lines of blocks."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.collection import position
from sluice_lab.waiting import until
from tests.collection.follower import LIMIT, NAME, STRETCH, Block, Follower
from tests.examples import examples

pytestmark = pytest.mark.slow

MAX_LINE = 100_000  # shorter than an agent's, so that lines to be cut are cheap

_lengths = st.one_of(
    st.integers(0, 300),
    st.sampled_from([0, 1, LIMIT - 1, LIMIT, LIMIT + 1, MAX_LINE, MAX_LINE + 1, STRETCH, 2 * STRETCH]),
)
_ends = st.sampled_from([b"\n", b"\n", b"\r\n", b"\n\n"])
#: (length, end, times): equal lines, which may be longer than a stretch, or one line, maybe without end.
_runs = st.tuples(st.integers(0, 300), _ends, st.integers(1, 1_500))
_singles = st.tuples(_lengths, _ends | st.just(b""), st.just(1))
Piece = tuple[int, bytes, int]
_steps = st.lists(
    st.tuples(
        st.lists(_runs | _singles, max_size=4),
        st.sampled_from(["look", "look", "look", "restart", "kill", "rewind"]),
    ),
    min_size=1,
    max_size=6,
)


def text(pieces: Iterable[Piece]) -> bytes:
    letters = b"\xffab"
    return b"".join((letters[n % 3 : n % 3 + 1] * n + end) * times for n, end, times in pieces)


def file_lines(data: bytes) -> dict[int, bytes]:
    """The complete lines of a file by their offsets, as an agent with MAX_LINE sends them."""
    found, offset = {}, 0
    for line in data.split(b"\n")[:-1]:
        found[offset] = line[:MAX_LINE]
        offset += len(line) + 1
    return found


def sent_lines(blocks: Iterable[Block]) -> dict[int, bytes]:
    """All lines by their offsets; copies of a line must be equal."""
    found: dict[int, bytes] = {}
    for block in blocks:
        for _, offset, line in block.lines():
            assert found.setdefault(offset, line) == line
    return found


@settings(examples(12), suppress_health_check=list(HealthCheck))  # an example is a process that runs
@given(steps=_steps, back=st.integers(0, 3 * STRETCH))
def test_blocks_are_exactly_the_lines_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, classes: str, steps: list[tuple[list[Piece], str]], back: int
) -> None:
    """Whatever is appended, however the agent is stopped, killed and taken back."""
    follower = Follower.made(tmp_path_factory.mktemp("blocks"), classes)
    follower.max_line = MAX_LINE
    follower.log.touch()
    try:
        follower.start()
        blocks: list[Block] = []
        for pieces, step in steps:
            with follower.log.open("ab") as out:
                out.write(text(pieces))
            blocks += follower.blocks()
            if step == "kill":
                follower.kill()
            elif step != "look":
                follower.stop()
            if step == "rewind":
                position.rewind(follower.folder / "position.json", back, max_line=MAX_LINE)
            if step != "look":
                follower.start()
        blocks += follower.blocks()
    finally:
        follower.close()
    assert {block.src_file for block in blocks} <= {NAME}
    assert sent_lines(blocks) == file_lines(follower.log.read_bytes())


def test_lines_that_come_alone_are_sent_at_once(follower: Follower) -> None:
    follower.log.write_text("one\n")
    follower.start()
    assert [block.body for block in follower.blocks()] == [b"one"]
    with follower.log.open("a") as out:
        out.write("two\n\nthr")
    assert [block.body for block in follower.blocks()] == [b"two\n"]
    with follower.log.open("a") as out:
        out.write("ee\n")
    assert [(block.offset, block.body) for block in follower.blocks()] == [(9, b"three")]


def test_a_block_is_as_long_as_it_may_be(follower: Follower) -> None:
    line = b"x" * 149
    follower.log.write_bytes((line + b"\n") * 10_000)
    follower.start()
    blocks = follower.blocks()
    assert len(blocks) == 5 * 5 + 3  # five whole stretches, and most of another
    assert max(len(block.body) for block in blocks) > LIMIT - len(line) - 1
    assert follower.blocks() == []


def test_a_file_of_empty_lines(follower: Follower) -> None:
    follower.log.write_bytes(b"\n" * (LIMIT + 10))
    follower.start()
    assert [len(block.body) for block in follower.blocks()] == [LIMIT, 8]


def test_the_last_line_without_newline_is_sent_when_the_file_is_idle(follower: Follower) -> None:
    follower.idle_ms = 100
    text = b"one\r\n" + b"y" * 100_000 + b"\ntwo"
    follower.log.write_bytes(text)
    follower.start()
    blocks = follower.blocks()

    def whole() -> bool:
        blocks.extend(follower.blocks())
        return blocks[-1:] != [] and blocks[-1].body == b"two"

    until(whole, what=lambda: blocks)
    assert b"\n".join(block.body for block in blocks) == text
    assert sent_lines(blocks) == {0: b"one\r", 5: b"y" * 100_000, 100_006: b"two"}
