from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.exc import OperationalError

from sluice.runtime.settings import Settings
from sluice.storage.commits import CommitLog
from sluice.storage.epochs import StatePeriod, column
from sluice.storage.postgres import alembic_config, engine, migrate, patiently
from sluice.storage.schema import alerts, archive_files, frozen_topics, metadata, uncounted
from tests import databases

#: The revision before blocks were committed by epochs.
BEFORE_EPOCHS = "0009"


@pytest.fixture
def empty_database(stack: Settings) -> Iterator[Settings]:
    with databases.empty_database(stack, f"storage_{secrets.token_hex(4)}") as own:
        yield own


@pytest.mark.stack
def test_the_migrations_match_the_metadata_and_may_run_again(empty_database: Settings) -> None:
    migrate(empty_database)
    migrate(empty_database)
    with engine(empty_database).connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


@pytest.mark.stack
def test_topics_with_lines_are_frozen_and_others_are_not(empty_database: Settings) -> None:
    """A commit that only took up a task ends where the topic begins, so it freezes nothing."""
    from alembic import command

    with engine(empty_database).begin() as connection:
        command.upgrade(alembic_config(connection), "0003")
        for topic, end in (("counted", {"0": 0, "1": 7}), ("resting", {"0": 0})):
            row = {"topic": topic, "seq": 1, "token": "t", "topic_id": "id", "start": {}, "end": end}
            row |= {"tasks": [], "counts": {}, "blocks": [], "committed_at": datetime.now(UTC)}
            table = sa.Table("commits", sa.MetaData(), autoload_with=connection)
            connection.execute(sa.insert(table).values(row))
        numbers = ("partition", "first", "next", "records", "bytes", "arrival_min", "arrival_max", "unparsed")
        file = {"topic": "archived", "topic_id": "x", "days": {}, "generation": 1, "path": "p"}
        connection.execute(sa.insert(archive_files).values(file | dict.fromkeys(numbers, 1)))
    migrate(empty_database)
    with engine(empty_database).connect() as connection:
        assert set(connection.scalars(sa.select(frozen_topics.c.topic))) == {"archived", "counted"}
        # Each record that was archived before there were blocks was a line.
        assert connection.execute(sa.select(archive_files.c.records, archive_files.c.lines)).all() == [(1, 1)]


@pytest.mark.stack
def test_uncounted_versions_move_from_alerts_to_their_table(empty_database: Settings) -> None:
    from alembic import command

    told = {
        "shop: a 2015-05-17: task 3v1": "Broken: could not be counted: x",
        "shop: a 2015-05-18: task 12v3": "Broken: y",
    }
    with engine(empty_database).begin() as connection:
        command.upgrade(alembic_config(connection), "0004")
        for name, why in told.items():
            message = f"{name} could not be counted: {why}"
            row = {"source": "nightly", "name": name, "message": message}
            connection.execute(sa.insert(alerts).values(row))
        other = {"source": "nightly", "name": "something else", "message": "x"}
        connection.execute(sa.insert(alerts).values(other))
        over = {"source": "nightly", "name": "t 2015-05-17: task 1v1", "message": "x"}
        connection.execute(sa.insert(alerts).values(over | {"cleared_at": datetime.now(UTC)}))
    migrate(empty_database)
    t = uncounted.c
    with engine(empty_database).connect() as connection:
        query = sa.select(t.topic, t.day, t.task_id, t.version, t.reason).order_by(t.day)
        assert list(connection.execute(query)) == [
            ("shop: a", date(2015, 5, 17), 3, 1, "Broken: could not be counted: x"),
            ("shop: a", date(2015, 5, 18), 12, 3, "Broken: y"),
        ]


@pytest.mark.stack
def test_pointers_to_blocks_become_epochs_and_periods(empty_database: Settings) -> None:
    """What was committed is readable, and what was not is not; retention has deleted some commits."""
    from alembic import command

    commits = {5: "b", 6: "b", 8: "c", 9: "c"}  # 1 to 4 and 7 are deleted
    pointers = [(0, 1, 0, 2, "a"), (0, 1, 0, 9, "c"), (60, 4, 1, 4, "b"), (60, 4, 3, 8, "c")]
    with engine(empty_database).begin() as connection:
        command.upgrade(alembic_config(connection), BEFORE_EPOCHS)
        tables = sa.MetaData()
        old = {n: sa.Table(n, tables, autoload_with=connection) for n in ("commits", "state_blocks")}
        for seq, token in commits.items():
            row = {"topic": "logs", "seq": seq, "token": token, "topic_id": "id", "start": {}, "end": {}}
            row |= {"tasks": [], "counts": {}, "blocks": []}
            connection.execute(sa.insert(old["commits"]).values(row))
        for start, layout, bucket, seq, token in pointers:
            task = 1 if start else 1 + (seq == 2)
            block = {"topic": "logs", "task_id": task, "version": 1, "period_start": start, "bytes": 100}
            block |= {"layout": layout, "bucket": bucket, "seq": seq, "token": token}
            block["row"] = f"{task}v1/{start}/{layout}/{bucket}"
            connection.execute(sa.insert(old["state_blocks"]).values(block))
    migrate(empty_database)
    log = CommitLog(engine(empty_database), "logs")
    keys = [(1, 1, 0), (2, 1, 0), (1, 1, 60)]
    assert log.periods(keys) == {
        (1, 1, 0): StatePeriod(1, 1, 0, 1, 9, 9, 100),
        (2, 1, 0): StatePeriod(2, 1, 0, 1, 2, 2, 100),
        (1, 1, 60): StatePeriod(1, 1, 60, 4, 4, 8, 200),
    }
    epochs = log.epochs()
    assert [epochs.token(seq) for seq in range(1, 11)] == ["", "a", "", "b", "b", "b", "", "c", "c", "c"]
    readable = log.snapshot(keys).readable
    assert readable.head == 9
    garbage = {column(3, "a"): b"", column(7, "b"): b"", column(7, "c"): b"", column(10, "c"): b""}
    assert readable.current({column(2, "a"): b"", **garbage}, since=2) == [column(2, "a")]
    row = {column(6, "b"): b"", column(4, "b"): b"", **garbage}
    assert readable.current(row, since=4) == [column(6, "b")]
    with engine(empty_database).begin() as connection, pytest.raises(RuntimeError, match="no pointers"):
        command.downgrade(alembic_config(connection), BEFORE_EPOCHS)


@pytest.mark.stack
def test_a_migration_can_be_taken_back(empty_database: Settings) -> None:
    from alembic import command

    migrate(empty_database)
    with engine(empty_database).begin() as connection:
        command.downgrade(alembic_config(connection), "base")
    with engine(empty_database).connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["alembic_version"]


class AwayForAWhile:
    """PostgreSQL as it looks while it restarts: the first calls fail."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self) -> str:
        if self.times:
            self.times -= 1
            raise OperationalError("SELECT 1", {}, ConnectionRefusedError("refused"))
        return "back"


def test_patience_outlasts_a_restart() -> None:
    assert patiently(AwayForAWhile(2), 10) == "back"


def test_patience_has_an_end() -> None:
    with pytest.raises(OperationalError):
        patiently(AwayForAWhile(1_000), 0.1)


def test_a_server_that_is_not_there_is_noticed_at_once() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    nowhere = Settings(instance="test", postgres={"host": "127.0.0.1", "port": port, "password": "x"})
    with pytest.raises(OperationalError):
        engine(nowhere).connect()
