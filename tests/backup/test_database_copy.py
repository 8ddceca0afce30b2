"""A database's rows are those of one moment, and all of them or none come back, references included."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from sluice.backup.database_copy import DatabaseSnapshot, SchemaDiffers, load, set_projected
from sluice.backup.manifest import DamagedBackup, DumpedDatabase
from sluice.backup.parts import BackupParts
from sluice.runtime.settings import Settings
from sluice_lab.bench import databases
from tests.backup.stores import silent

pytestmark = pytest.mark.stack

SCHEMA = """
CREATE TABLE folk (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, boss int REFERENCES folk);
CREATE TABLE "Jobs" ("Id" serial PRIMARY KEY, folk int NOT NULL REFERENCES folk ON DELETE CASCADE, raw bytea,
    said jsonb, twice int GENERATED ALWAYS AS (folk * 2) STORED);
ALTER TABLE folk ADD job int REFERENCES "Jobs";
CREATE TABLE projections (topic text PRIMARY KEY, seq bigint NOT NULL);
CREATE TABLE sums (name text PRIMARY KEY, seqs bigint NOT NULL);
CREATE FUNCTION add_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION 'refused';
    END IF;
    INSERT INTO sums AS s VALUES ('all', NEW.seq) ON CONFLICT (name) DO UPDATE SET seqs = s.seqs + NEW.seq;
    RETURN NULL;
END $$;
CREATE TRIGGER adds AFTER INSERT ON projections FOR EACH ROW EXECUTE FUNCTION add_up();
CREATE TRIGGER stays BEFORE TRUNCATE ON projections FOR EACH STATEMENT EXECUTE FUNCTION add_up();
"""
ROWS = """
INSERT INTO folk (name) VALUES (E'a\\tb\\nc\\\\d'), (NULL), ('é');
UPDATE folk SET boss = 3 WHERE id = 1;
INSERT INTO "Jobs" (folk, raw, said) VALUES (1, '\\x00ff09', '{"a": [1, null]}'), (3, NULL, NULL);
UPDATE folk SET job = 2 WHERE id = 2;
INSERT INTO projections VALUES ('logs', 9), ('late', 5);
"""
ALL = (
    "SELECT * FROM folk ORDER BY 1",
    'SELECT * FROM "Jobs" ORDER BY 1',
    "SELECT * FROM projections ORDER BY 1",
    "SELECT * FROM sums",
)


@pytest.fixture
def pair(stack: Settings) -> Iterator[tuple[Settings, Settings]]:
    """Two databases with the same tables; the first one has rows."""
    names = [f"copy_{secrets.token_hex(4)}" for _ in range(2)]
    with databases.empty_database(stack, names[0]) as one, databases.empty_database(stack, names[1]) as two:
        run(one, SCHEMA)
        run(one, ROWS)
        run(two, SCHEMA)
        yield one, two


def run(settings: Settings, statements: str) -> None:
    with closing(psycopg2.connect(settings.postgres.url("postgresql"))) as connection, connection:
        connection.cursor().execute(statements)


def rows(settings: Settings) -> list[list[tuple[Any, ...]]]:
    with closing(psycopg2.connect(settings.postgres.url("postgresql"))) as connection:
        cursor = connection.cursor()
        found = []
        for query in ALL:
            cursor.execute(query)
            found.append([tuple(bytes(v) if isinstance(v, memoryview) else v for v in r) for r in cursor])
        return found


def dumped(settings: Settings, folder: Path) -> DumpedDatabase:
    with closing(DatabaseSnapshot(settings.postgres)) as snapshot:
        return snapshot.dump(BackupParts(folder), "postgres", "1", silent)


def nothing(cursor: Any) -> None:
    """Change nothing."""


def test_all_rows_come_back_in_place_of_others(pair: tuple[Settings, Settings], tmp_path: Path) -> None:
    one, two = pair
    run(two, "INSERT INTO folk (name) VALUES ('other'); INSERT INTO projections VALUES ('other', 1)")
    load(two.postgres, dumped(one, tmp_path), tmp_path, silent, nothing)
    assert rows(two) == rows(one)
    run(
        two, "INSERT INTO folk (name) VALUES ('new'); INSERT INTO \"Jobs\" (folk) VALUES (4)"
    )  # no number twice
    with pytest.raises(psycopg2.errors.ForeignKeyViolation):
        run(two, 'INSERT INTO "Jobs" (folk) VALUES (77)')
    run(two, "DELETE FROM folk WHERE id = 4")  # it cascades


def test_triggers_neither_refuse_a_load_nor_add_to_it_and_go_on_after_it(
    pair: tuple[Settings, Settings], tmp_path: Path
) -> None:
    one, two = pair
    run(two, "INSERT INTO projections VALUES ('other', 1)")
    load(two.postgres, dumped(one, tmp_path), tmp_path, silent, nothing)
    assert rows(two)[3] == [("all", 14)]
    run(two, "INSERT INTO projections VALUES ('new', 6)")
    assert rows(two)[3] == [("all", 20)]
    with pytest.raises(psycopg2.errors.RaiseException, match="refused"):
        run(two, "TRUNCATE projections")


def test_rows_that_come_after_its_moment_are_not_in_it(
    pair: tuple[Settings, Settings], tmp_path: Path
) -> None:
    one, two = pair
    before = rows(one)
    with closing(DatabaseSnapshot(one.postgres)) as snapshot:
        run(one, "INSERT INTO folk (name) VALUES ('late')")
        found = snapshot.dump(BackupParts(tmp_path), "postgres", "1", silent)
        assert list(snapshot.rows("SELECT count(*) FROM folk")) == [(3,)]
    load(two.postgres, found, tmp_path, silent, nothing)
    assert rows(two) == before


def test_commits_that_were_projected_later_are_projected_again(
    pair: tuple[Settings, Settings], tmp_path: Path
) -> None:
    one, two = pair

    def earlier(cursor: Any) -> None:
        set_projected(cursor, {"logs": 7, "gone": 3})

    load(two.postgres, dumped(one, tmp_path), tmp_path, silent, earlier)
    assert rows(two)[2] == [("late", 0), ("logs", 7)]


def test_a_load_that_fails_changes_nothing(pair: tuple[Settings, Settings], tmp_path: Path) -> None:
    one, two = pair
    run(two, "INSERT INTO projections VALUES ('other', 1)")
    before, found = rows(two), dumped(one, tmp_path)
    more = replace(found.tables[-1], rows=found.tables[-1].rows + 1)
    with pytest.raises(DamagedBackup, match="1 rows, and its manifest says 2"):
        load(two.postgres, replace(found, tables=(*found.tables[:-1], more)), tmp_path, silent, nothing)
    assert rows(two) == before
    with pytest.raises(psycopg2.errors.ForeignKeyViolation):
        run(two, 'INSERT INTO "Jobs" (folk) VALUES (77)')


def test_other_tables_than_the_backup_s_are_named(pair: tuple[Settings, Settings], tmp_path: Path) -> None:
    one, two = pair
    run(two, "ALTER TABLE folk ADD age int")
    with pytest.raises(SchemaDiffers, match=r"public\.folk"):
        load(two.postgres, dumped(one, tmp_path), tmp_path, silent, nothing)
