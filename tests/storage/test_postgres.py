from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.exc import OperationalError

from sluice.runtime.settings import Settings
from sluice.storage import postgres
from sluice.storage.postgres import SchemaRefused, engine, migrate, patiently
from sluice.storage.tables import locks
from sluice.storage.tables.schema import metadata
from sluice_lab.bench import databases


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


@pytest.mark.parametrize(("revision", "said"), [("0024", "version 0.1.0 first"), ("9999", "a newer release")])
def test_a_database_of_another_release_is_refused_and_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, revision: str, said: str
) -> None:
    database = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    versions = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.Text))
    with database.begin() as connection:
        versions.create(connection)
        connection.execute(sa.insert(versions).values(version_num=revision))
    monkeypatch.setattr(postgres, "engine", lambda settings: database)
    monkeypatch.setattr(locks, "take", lambda connection, lock: None)  # SQLite has none
    with pytest.raises(SchemaRefused, match=said):
        migrate(Settings(instance="test"))
    with database.connect() as connection:
        assert connection.scalar(sa.select(versions.c.version_num)) == revision
        assert sa.inspect(connection).get_table_names() == ["alembic_version"]


@pytest.mark.stack
def test_an_older_database_is_refused(empty_database: Settings) -> None:
    migrate(empty_database)
    with engine(empty_database).begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0024'"))
    with pytest.raises(SchemaRefused, match="revision 0024"):
        migrate(empty_database)


class AwayForAWhile:
    """PostgreSQL as it looks while it restarts: the first calls fail."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self) -> str:
        if self.times:
            self.times -= 1
            raise OperationalError("SELECT 1", {}, ConnectionRefusedError("refused"))
        return "back"


@pytest.mark.slow
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
