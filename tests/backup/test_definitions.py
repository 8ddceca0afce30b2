"""Definitions out of a database and into another one, column by column."""

from __future__ import annotations

import secrets
from datetime import UTC, date, datetime

import pytest
import sqlalchemy as sa

from sluice.backup import definitions
from sluice.backup.definitions import TABLES, Definitions, UnreadableDefinitions
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine, migrate
from sluice.storage.tables import schema
from sluice.storage.tables.erasures import Erasures
from sluice.tasks import TaskSpec
from sluice.tasks.store import TaskStore
from sluice_lab.bench import databases
from tests.tasks.database import sqlite

REVISION = "0032_rebuilds_that_wait"
AT = datetime(2026, 1, 5, 2, 0, 0, 250_000, tzinfo=UTC)


def versioned() -> sa.Engine:
    """An empty database of that revision."""
    database = sqlite()
    with database.begin() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num TEXT)"))
        connection.execute(sa.text(f"INSERT INTO alembic_version VALUES ('{REVISION}')"))
    return database


def filled() -> sa.Engine:
    database, at = versioned(), {"created_at": AT, "created_by": "ann"}
    task, counted = {"topic": "logs", "enabled": True}, {"task_id": 1, "topic": "logs"}
    rows = {
        schema.tasks: [
            {"id": 1, "name": "hits", "version": 2, **task},
            {"id": 2, "name": "gone", "version": 1, **task, "deleted_at": AT},
        ],
        schema.task_versions: [
            {"task_id": 1, "version": 1, "spec": {"name": "hits", "period": "1m"}, "sets": {}, **at},
            {"task_id": 1, "version": 2, "spec": {"name": "hits", "period": "5m"}, "sets": {"b": 1}, **at},
        ],
        schema.task_changes: [
            {"id": 7, "task_id": 1, "version": 2, "action": "changed", "at": AT, "by": "ann", "detail": "d"}
        ],
        schema.value_lists: [{"name": "b", "version": 1, "values": ["200", "é"], **at}],
        schema.task_ranges: [
            {"version": 1, "first_seq": 1, "start": {}, "end": {"0": 9}, "end_seq": 5, **counted},
            {"version": 2, "first_seq": 5, "start": {"0": 9}, **counted},
        ],
        schema.dropped_days: [{"topic": "logs", "day": date(2025, 1, 1), "dropped_at": AT}],
        schema.erasures: [
            {"id": 3, "topic": "logs", "dimension": "who", "salt": b"\0\xff", "value_hash": b"\x80h"}
            | {"cut": {}, "state": "redacting", "days": [], "counts": {}}
            | {"requested_by": "ann", "requested_at": AT}
        ],
    }  # fmt: skip
    with database.begin() as connection:
        for table, own in rows.items():
            for row in own:
                connection.execute(sa.insert(table).values(row))
    return database


def spec(name: str) -> TaskSpec:
    return TaskSpec.model_validate({"name": name, "topic": "logs", "period": "1m", "metrics": ["count"]})


def contents(database: sa.Engine) -> dict[str, list[object]]:
    with database.connect() as connection:
        return {
            name: sorted(map(repr, connection.execute(sa.select(schema.metadata.tables[name]))))
            for name in TABLES
        }


def test_definitions_come_back_column_by_column() -> None:
    source, target = filled(), versioned()
    kept = Definitions.from_json(definitions.read(source).to_json())
    assert (kept.revision, kept.changes) == (REVISION, 7)
    for _ in range(2):  # the second time in place of the first
        with target.begin() as connection:
            definitions.put(connection, kept)
        assert contents(target) == contents(source)
    with target.connect() as connection:  # no JSON null
        open_ = sa.select(schema.task_ranges.c.version).where(schema.task_ranges.c.end.is_(None))
        assert connection.scalars(open_).all() == [2]
    assert definitions.read(target) == definitions.read(source)


def test_every_table_is_one_and_refers_to_one_before_it() -> None:
    for number, name in enumerate(TABLES):
        keys = schema.metadata.tables[name].foreign_keys
        assert {key.column.table.name for key in keys} <= set(TABLES[:number])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"revision": "1", "rows": []}'])
def test_another_document_is_refused(text: str) -> None:
    with pytest.raises(UnreadableDefinitions):
        Definitions.from_json(text)


@pytest.mark.stack
def test_postgresql_takes_its_own_definitions_and_goes_on_counting(stack: Settings) -> None:
    with databases.empty_database(stack, f"definitions_{secrets.token_hex(4)}") as own:
        migrate(own)
        database = engine(own)
        tasks = TaskStore(database)
        tasks.apply([spec("hits"), spec("gone")], "test")
        tasks.delete("gone", "test")
        Erasures(database).begin("logs", "client", "10.0.0.1", cut={"0": 7}, user="test")
        kept = definitions.read(database)
        with database.begin() as connection:
            connection.execute(sa.text("SELECT setval(pg_get_serial_sequence('tasks', 'id'), 1, false)"))
            definitions.put(connection, Definitions.from_json(kept.to_json()))
        assert Erasures(database).all()[0].is_of("10.0.0.1")
        assert definitions.read(database) == kept
        tasks.apply([spec("next")], "test")
        assert tasks.get("next").task_id > max(row["id"] for row in kept.rows["tasks"])
        database.dispose()
