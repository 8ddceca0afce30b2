"""An old instance in a PostgreSQL of its own: what is pruned beside a writer, and what is read of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import folding, schema, topic_totals
from sluice.storage.tables.commits import Commit, CommitLog
from sluice.tasks.store import TaskStore
from sluice_lab.bench import aged, old_reads, workload
from sluice_lab.bench.aged import Age
from sluice_lab.bench.database import server
from sluice_lab.bench.databases import database
from sluice_lab.bench.old_reads import Extent, OldReads
from tests.storage.plans import rows_read

pytestmark = [pytest.mark.slow, pytest.mark.long]

HOW = Age(versions=80, days=20, commits=100, starts=2, periods=32, files=2, dead=3)
FOLD = """
import sys
from datetime import UTC, datetime, timedelta
import sqlalchemy as sa
from sluice.storage.tables.folding import fold
fold(sa.create_engine(sys.argv[1]), "logs", datetime.now(UTC) - timedelta(days=1), portion=200)
"""


def totals(settings: Settings) -> dict[str, object]:
    with engine(settings).connect() as connection:
        found = asdict(topic_totals.read(connection, "logs", datetime.now(UTC).date()))
    return {name: value for name, value in found.items() if name != "ledger"}


def rows(settings: Settings) -> int:
    with engine(settings).connect() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(schema.commits)) or 0


def append(log: CommitLog, count: int) -> None:
    """Go on with the topic's commits, as a writer does."""
    for _ in range(count):
        head = log.head()
        assert head is not None
        end = {partition: offset + 1 for partition, offset in head.end.items()}
        counts = {"lines": 4, "doubled": 0, "counted": 4, "dead": 0}
        log.append(Commit(head.seq + 1, "w", "id", datetime.now(UTC), head.end, end, [], counts))


def test_commits_are_folded_beside_a_writer_and_after_a_kill() -> None:
    with server("folds") as settings, database(settings, "bench_folds") as own:
        TaskStore(engine(own)).apply(workload.tasks(2), "bench")
        aged.age(own, 2, HOW)
        before, made = totals(own), rows(own)
        killed = subprocess.run(
            [sys.executable, "-c", FOLD, own.postgres.url()],
            env={**os.environ, "SLUICE_FAULT": "commits_folded:3"},
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL
        assert HOW.days < rows(own) < made
        assert totals(own) == before
        log = CommitLog(engine(own), "logs", 10)
        writer = threading.Thread(target=append, args=(log, 150))
        writer.start()
        saved = folding.fold(engine(own), "logs", datetime.now(UTC) - timedelta(days=1), portion=100)
        writer.join()
        assert saved > 0
        # A row a day, those that the book of days refers to, those of the last day, and the new ones.
        assert rows(own) <= 2 * HOW.days + 2 + HOW.commits + 150
        after = totals(own)
        assert after["counted"] == before["counted"] + 4 * 150  # type: ignore[operator]
        same = before.keys() - {"lines", "counted", "last_seq", "committed"}
        assert {name: after[name] for name in same} == {name: before[name] for name in same}


def test_an_old_instance_is_pruned_and_read() -> None:
    with server("reads") as settings, database(settings, "bench_reads") as own:
        TaskStore(engine(own)).apply(workload.tasks(2), "bench")
        reads = OldReads(own, HOW, Extent(active=2, open=50, files=2))
        assert set(reads.laps()) == {"audit", "status", "reconciliation's coverage", "a page of results"}
        for _ in range(2):
            assert reads.night()["a night"] > 0
        assert reads.commits() <= 2 * HOW.days + 2 + HOW.commits + 50
    assert old_reads.new(HOW).days == 2


def test_what_people_and_the_night_ask_reads_as_many_rows_as_when_the_instance_was_new() -> None:
    """An audit adds up days, and a night looks which are marked: a few rows each, none of an archive file."""
    how = replace(HOW, versions=4_000, days=120, commits=40, files=1, dead=1)
    extent, rows = Extent(active=2, open=200, files=24), dict[str, dict[str, int]]()
    with server("rows") as settings:
        for name, own in (("new", old_reads.new(how)), ("old", how)):
            with database(settings, f"bench_rows_{name}") as made:
                TaskStore(engine(made)).apply(workload.tasks(2), "bench")
                old = OldReads(made, own, extent)
                asked = {**old.reads(), "a night": old.compute_yesterday}
                rows[name] = {read: rows_read(engine(made), ask) for read, ask in asked.items()}
    for read in ("audit", "a night"):
        more = rows["old"].pop(read) - rows["new"].pop(read)
        assert more < 118 * 40, read
    for read, old in rows["old"].items():
        assert old <= 1.2 * rows["new"][read] + 8, (read, rows)
