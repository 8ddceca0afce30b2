"""The speed layer on the real stack counts records of several lines, however they are cut and doubled."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.storage.tables import schema
from sluice_lab.bench.headers import to_headers
from sluice_lab.waiting import until
from tests.speed.speed_driver import SpeedTest, access_lines

pytestmark = pytest.mark.stack


@pytest.fixture
def speed(stack: Settings, tmp_path: Path) -> Iterator[SpeedTest]:
    test = SpeedTest(stack, tmp_path)
    yield test
    test.close()


def send(speed: SpeedTest, begin: int, lines: Sequence[bytes], most: int, *, any_partition: bool) -> int:
    """Send the lines in blocks of up to `most`; returns where they end in the file."""
    dice, source = random.Random(most), speed.source  # noqa: S311 - not a secret
    while lines:
        size = dice.randint(1, most)
        own, lines = lines[:size], lines[size:]
        body = b"\n".join(own)
        headers = to_headers(source.host, source.src_file, begin, body, source.key)
        partition = dice.randrange(4) if any_partition else 1
        speed.producer.send(speed.topic, body, headers=headers, partition=partition)
        begin += len(body) + 1
    speed.producer.flush()
    return begin


@pytest.mark.parametrize("small", ["0", "2000"], ids=["executors", "driver"])
def test_blocks_that_come_again_cut_elsewhere_count_each_line_once(speed: SpeedTest, small: str) -> None:
    lines = access_lines(4_000, seed=1)
    lines[100] = b"no time at all"
    lines[101] = b""
    speed.expected.add(lines)
    end = send(speed, 0, lines, 150, any_partition=True)
    with speed.running(SLUICE_SPEED__SMALL_BATCH=small):
        until(speed.caught_up)
        speed.check()
        # A rewind: the last lines again, in other blocks, together with new ones; then all, a line a record.
        tail = sum(len(line) + 1 for line in lines[:3_000])
        more = access_lines(1_000, seed=2)
        speed.expected.add(more)
        speed.source.size = send(speed, tail, [*lines[3_000:], *more], 70, any_partition=True)
        send(speed, end, more, 90, any_partition=False)
        speed.source.send(lines, 0)
        until(speed.caught_up)
        speed.check()
        assert speed.total("doubled") == 6_000
        # A record without a proof stays one line, newlines and all.
        odd = b"\n".join(access_lines(2, seed=3))
        speed.producer.send(speed.topic, odd, headers=[("host", b"web1")])
        speed.producer.flush()
        until(speed.caught_up)
    assert speed.commits()[-1].counts["records"] == 1
    t = schema.dead_letters.c
    with speed.engine.connect() as connection:
        query = sa.select(t.offset, t.line_in_record, t.line, t.src_offset).where(t.topic == speed.topic)
        dead = connection.execute(query.order_by(t.src_offset)).all()
        (intervals,) = connection.execute(
            sa.select(schema.ledger.c.starts).where(
                schema.ledger.c.topic == speed.topic, schema.ledger.c.host == "web1"
            )
        ).all()
    assert [bytes(row.line) for row in dead] == [b"no time at all", b""]
    assert dead[1].src_offset == dead[0].src_offset + len(b"no time at all") + 1
    assert dead[0].offset != dead[1].offset or dead[0].line_in_record + 1 == dead[1].line_in_record
    assert len(intervals.starts) == 8  # no hole
