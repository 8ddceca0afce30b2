"""The speed layer on the real stack: each line is counted once, whatever dies."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import happybase
import psutil
import pytest
import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.speed.writer import COMMITS_APART
from sluice.state.blocks import period_prefix
from sluice.storage.hbase import RESULTS, STATE
from sluice.storage.tables import schema
from sluice.storage.tables.commits import Commit, CommitLog
from sluice.storage.tables.epochs import column_seq, is_delta
from sluice_lab.waiting import SECONDS, until
from tests.speed.speed_driver import SpeedTest, access_lines

pytestmark = pytest.mark.stack

FENCED = 3
KILLED = -signal.SIGKILL
#: Of so few results, hardly more share a slot of what a projector remembers, and are written again.
SHARED = 2


@pytest.fixture
def speed(stack: Settings, tmp_path: Path) -> Iterator[SpeedTest]:
    test = SpeedTest(stack, tmp_path)
    yield test
    test.close()


def has_spark(process: subprocess.Popen[bytes]) -> bool:
    return any(each.name() == "java" for each in psutil.Process(process.pid).children(recursive=True))


@pytest.mark.parametrize("small", ["0", "2000"], ids=["executors", "driver"])
def test_every_line_counts_once_despite_double_late_and_malformed_lines(speed: SpeedTest, small: str) -> None:
    lines = access_lines(3_000, seed=1)
    begin = speed.append(lines)
    with speed.running(SLUICE_SPEED__SMALL_BATCH=small):
        until(speed.caught_up)
        speed.check()
        # Flume reads a stretch of the file again, in the same batch as new lines.
        speed.source.send(lines[500:2_500], begin + sum(len(line) + 1 for line in lines[:500]))
        speed.append(access_lines(500, seed=2))
        until(speed.caught_up)
        speed.check()
        assert speed.total("doubled") == 2_000
        # The same lines come twice in a batch, through different partitions.
        both = access_lines(300, seed=3)
        at = speed.append(both)
        for partition in (0, 3):
            speed.source.send(both, at, partition)
        # In the same batch is a line with only a part of an identity.
        (odd,) = access_lines(1, seed=16)
        speed.expected.add([odd])
        speed.producer.send(speed.topic, odd, headers=[("host", b"web1")])
        speed.producer.flush()
        until(speed.caught_up)
        speed.check()
        assert speed.total("doubled") == 2_600
        # Malformed lines, lines from long ago, and another host's file of the same name.
        speed.append(
            [b"", b"no time at all", b'1.2.3.4 - - [31/Feb/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1']
        )
        speed.append(access_lines(200, seed=4, start=datetime(1995, 7, 1, tzinfo=UTC)))
        speed.source = replace(speed.source, host="web2", size=0)
        speed.append(access_lines(100, seed=5))
        # Records without identity count by their place in Kafka, so the same line twice is two lines.
        alone = access_lines(200, seed=6) * 2
        speed.expected.add(alone)
        for line in alone:
            speed.producer.send(speed.topic, line)
        speed.producer.flush()
        until(speed.caught_up)
    speed.check()
    _check_books(speed)
    _check_figures(speed)


def _check_figures(speed: SpeedTest) -> None:
    """Assert that the progress says of every line how long it waited, and what became of it."""
    shown = speed.progress()
    assert sum(shown["freshness"].values()) == shown["lines"] == speed.total("records")
    assert shown["freshness_ms"] > 0
    assert shown["dead_reasons"] == {"no event time": speed.expected.dead}
    assert shown["task_lines"][speed.hits] == speed.expected.counted
    assert shown["newest_arrival"] <= datetime.now(UTC).timestamp() * 1000


def _check_books(speed: SpeedTest) -> None:
    """Assert that the dead letters, the days and the ledger hold each of those lines."""
    t = schema.dead_letters.c
    with speed.engine.connect() as connection:
        dead = connection.execute(sa.select(t.line, t.reason, t.bytes).where(t.topic == speed.topic)).all()
        assert sorted(bytes(row.line) for row in dead)[:2] == [
            b"",
            b'1.2.3.4 - - [31/Feb/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1',
        ]
        assert {row.reason for row in dead} == {"no event time"}
        e = schema.event_days.c
        days = connection.execute(
            sa.select(e.day, sa.func.sum(e.lines)).where(e.topic == speed.topic).group_by(e.day)
        ).all()
        ledger = connection.execute(
            sa.select(schema.ledger).where(schema.ledger.c.topic == speed.topic)
        ).all()
    assert sum(lines for _, lines in days) == speed.expected.counted
    assert {str(day) for day, _ in days} == {"1995-07-01", "2026-03-01", "2026-03-02"}
    intervals = {(row.host, len(row.starts) // 8) for row in ledger}
    assert {each for each in intervals if each[0] != "kafka"} == {("web1", 1), ("web2", 1)}  # no hole
    assert "kafka" in {host for host, _ in intervals}


def test_a_driver_killed_before_its_projection_then_outrun_counts_each_line_once(speed: SpeedTest) -> None:
    """tests/e2e/test_faults.py has the other moments and a second driver."""
    speed.append(access_lines(2_000, seed=9))
    with speed.running():
        until(speed.caught_up)
    before = len(speed.commits())
    speed.append(access_lines(2_000, seed=10))
    assert speed.start(fault="after_commit").wait(SECONDS) == KILLED
    assert len(speed.commits()) == before + 1
    assert speed.projected() == before

    speed.append(access_lines(1_000, seed=11))
    loser = speed.start()
    until(speed.caught_up)
    speed.check()
    _nothing_committed_is_missing(speed)

    log = CommitLog(speed.engine, speed.topic)
    head, tasks = log.head(), sorted(log.open_versions())
    assert head is not None
    nothing = dict.fromkeys(("lines", "doubled", "counted", "dead"), 0)
    at = head.committed_at + COMMITS_APART
    # Another writer was faster, and counted nothing.
    log.append(Commit(head.seq + 1, "faster", head.topic_id, at, head.end, head.end, tasks, nothing))
    speed.append(access_lines(500, seed=15))
    assert loser.wait(SECONDS) == FENCED
    with speed.running():
        until(speed.caught_up)
    speed.check()


def test_a_python_worker_that_dies_while_it_writes_state_is_repeated(
    speed: SpeedTest, tmp_path: Path
) -> None:
    """Its first blocks or all of them are in HBase; the task that Spark repeats finds them."""
    faults = tmp_path / "faults"
    faults.mkdir()
    speed.append(access_lines(1_000, seed=30))
    with speed.running(SLUICE_FAULTS=str(faults), SLUICE_SPEED__SMALL_BATCH="0") as process:
        until(speed.caught_up)
        for seed, point in enumerate(("state_put", "state_written"), 31):
            (faults / point).touch()
            before = speed.committed()
            speed.append(access_lines(1_000, seed=seed))
            until(lambda before=before: speed.committed() > before and speed.caught_up())
            assert not (faults / point).exists()
        assert process.poll() is None
        assert has_spark(process)
        assert {commit.token for commit in speed.commits()} == {speed.commits()[0].token}
    speed.check()
    _nothing_committed_is_missing(speed)


def test_a_python_worker_that_dies_while_it_writes_deltas_is_repeated(
    speed: SpeedTest, tmp_path: Path
) -> None:
    """A day's block of thousands of series takes deltas; each series has each of its lines once."""
    faults = tmp_path / "faults"
    faults.mkdir()
    dimensions = [
        {"name": name, "extract": {"delimiter": " ", "index": index}}
        for name, index in (("client", 0), ("path", 6))
    ]
    label = speed.apply("pairs", period="1d", dimensions=dimensions, metrics=["count"])
    expected: Counter[tuple[str, str]] = Counter()

    def append(number: int, seed: int) -> None:
        lines = access_lines(number, seed=seed, start=datetime(2026, 3, 2, tzinfo=UTC))
        expected.update((fields[0], fields[6]) for line in lines if (fields := line.decode().split(" ")))
        speed.append(lines)

    append(10_000, 60)
    with speed.running(SLUICE_FAULTS=str(faults), SLUICE_SPEED__SMALL_BATCH="0") as process:
        until(speed.caught_up)
        for seed, point in enumerate(("state_put", "state_written", "", "state_put", "state_written"), 61):
            if point:
                (faults / point).touch()
            before = speed.committed()
            append(100, seed)
            until(lambda before=before: speed.committed() > before and speed.caught_up())
            assert not point or not (faults / point).exists()
        assert process.poll() is None
    names = [name for _, cells in speed.hbase.scan(STATE, prefix=f"{label}/".encode()) for name in cells]
    assert any(map(is_delta, names))
    assert not all(map(is_delta, names))
    speed.check()
    found: dict[tuple[str, str], int] = {}
    for row, cells in speed.hbase.scan(RESULTS, prefix=f"{label}_".encode()):
        _, _, client, _, path, *_ = row.decode().split("_")
        found[client, path.replace("%5F", "_")] = int(cells[b"r:o"])
    assert found == expected


def test_results_that_did_not_change_keep_their_cells(speed: SpeedTest) -> None:
    """Lines without a size touch every sum and change none. So few lines need no Spark."""
    with speed.running() as process:
        for seed in (50, 51):  # what is written after its first commit, a projector knows
            speed.append(access_lines(500, seed=seed))
            until(speed.caught_up)
        before = _stamps(speed, speed.bytes), _stamps(speed, speed.hits)
        sizeless = [line.rpartition(b" ")[0] + b" -" for line in access_lines(500, seed=51)]
        speed.append(sizeless)
        until(speed.caught_up)
        speed.check()
        sums = _stamps(speed, speed.bytes)
        assert sums.keys() == before[0].keys()
        assert len(sums.items() - before[0].items()) <= SHARED
        changed = _stamps(speed, speed.hits).items() - before[1].items()
        series = {(line.split(b" ")[3][:18], line.split(b" ")[8]) for line in sizeless}  # minute, status
        assert len(changed) == len(series)
        until(lambda: speed.progress()["projection"]["seq"] == speed.projected())
        assert 0 < speed.progress()["projection"]["results"] <= len(changed) + SHARED
        speed.append(access_lines(500, seed=52))
        until(speed.caught_up)
        speed.check()
        assert not has_spark(process)
    # A new projector knows nothing of what the one before it wrote.
    with speed.running():
        speed.append([*sizeless, *access_lines(500, seed=53)])
        until(speed.caught_up)
    speed.check()


def _stamps(speed: SpeedTest, label: str) -> dict[bytes, int]:
    """The time of each online result of a task version."""
    with closing(happybase.Connection(speed.settings.hbase.host, speed.settings.hbase.port)) as connection:
        rows = connection.table(RESULTS).scan(row_prefix=f"{label}_".encode(), include_timestamp=True)
        return {row: cells[b"r:o"][1] for row, cells in rows}


def test_a_driver_killed_while_it_projects_shows_every_result_at_its_next_start(speed: SpeedTest) -> None:
    speed.append(access_lines(2_000, seed=40))
    with speed.running():
        until(speed.caught_up)
    speed.append(access_lines(2_000, seed=41))
    assert speed.start(fault="projected").wait(SECONDS) == KILLED
    assert speed.projected() < len(speed.commits())
    with speed.running():
        until(speed.caught_up)
    speed.check()


def test_a_task_that_counts_again_shows_what_it_never_showed(speed: SpeedTest) -> None:
    name = f"hits_{speed.topic}"
    speed.append(access_lines(1_000, seed=20))
    with speed.running():
        until(speed.caught_up)
        speed.store.pause(name, "test")
        until(lambda: len(speed.commits()[-1].tasks) == 1)
        # Delete its results, as if writing them had failed after the commit of its state.
        rows = [row for row, _ in speed.hbase.scan(RESULTS, prefix=f"{speed.hits}_".encode())]
        speed.hbase.delete(RESULTS, ((row, [b"r"]) for row in rows))
        assert speed.results(speed.hits) == {}
        speed.store.resume(name, "test")
        until(lambda: len(speed.commits()[-1].tasks) == 2 and speed.caught_up())
    speed.check()


def _nothing_committed_is_missing(speed: SpeedTest) -> None:
    commits = CommitLog(speed.engine, speed.topic)
    newest = commits.changed_since(0).snapshot
    assert newest.periods
    for period in newest.periods.values():
        prefix = period_prefix(period.key)
        rows = dict(speed.hbase.scan(STATE, prefix=prefix))
        current = [newest.readable.current(cells, period.since) for cells in rows.values()]
        assert max(column_seq(columns[-1]) for columns in current if columns) == period.seq
        # Of the replaced columns only the newest may be there.
        assert all(len(cells) <= 2 for cells in rows.values())
