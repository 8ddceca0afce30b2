"""An instance of a release in which the platform's one role was PostgreSQL's superuser."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from sluice.runtime.settings import Settings
from sluice.stack.daemons import postgres
from tests.own_postgres import connected, make_cluster, own_settings, serving

pytestmark = pytest.mark.slow

OBJECTS = """
CREATE TABLE tasks (id serial PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY, mood text);
INSERT INTO tasks (mood) VALUES ('glad');
CREATE TYPE mood AS ENUM ('a');
CREATE TYPE pair AS (a int, b int);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE VIEW shown AS SELECT * FROM tasks;
CREATE MATERIALIZED VIEW kept AS SELECT * FROM tasks;
CREATE SEQUENCE "Free";
CREATE SCHEMA other;
CREATE TABLE other."odd Name" (x int) PARTITION BY LIST (x);
CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql AS 'SELECT 2 * $1';
CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER counted BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION counted();
SELECT lo_from_bytea(0, 'large');
"""
#: All that somebody made, with its owner; what the server was made with has smaller numbers.
OWNERS = """
SELECT c.oid::regclass::text, relowner::regrole::text FROM pg_class c WHERE c.oid >= 16384
AND relnamespace <> 'pg_toast'::regnamespace
UNION ALL SELECT typname, typowner::regrole::text FROM pg_type WHERE oid >= 16384
AND typnamespace <> 'pg_toast'::regnamespace
UNION ALL SELECT proname, proowner::regrole::text FROM pg_proc WHERE oid >= 16384
UNION ALL SELECT nspname, nspowner::regrole::text FROM pg_namespace WHERE oid >= 16384
UNION ALL SELECT 'large object', lomowner::regrole::text FROM pg_largeobject_metadata
"""
MADE = ("tasks", "shown", "kept", '"Free"', 'other."odd Name"', "twice", "other", "mood", "pair", "positive")
#: Where a killed preparation ended: after so many of its runs of the single-user mode.
KILLED_AFTER = (1, 2, 3, 4)


class Killed(Exception):
    """Stands for a `kill -9` of the preparation."""


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return own_settings(tmp_path_factory.mktemp("old") / "home")


@pytest.fixture
def old(settings: Settings) -> Settings:
    """A cluster with one role, `sluice`, a superuser that owns everything."""
    make_cluster(settings)
    with serving(settings):
        with closing(connected(settings, "postgres")) as connection:
            for name in ("sluice", "airflow", "metastore"):
                connection.cursor().execute(f"CREATE DATABASE {name}")
            connection.cursor().execute("CREATE ROLE metastore SUPERUSER")
            connection.cursor().execute("GRANT pg_read_all_data TO metastore")
        for name in ("sluice", "airflow"):
            with closing(connected(settings, name)) as connection:
                connection.cursor().execute(OBJECTS)
    return settings


def test_an_older_instance_s_data_get_their_owners_and_its_role_is_no_superuser(
    old: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = postgres.single
    for runs in KILLED_AFTER:
        left = [runs]

        def dying(*arguments: Any, left: list[int] = left) -> str:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return single(*arguments)

        monkeypatch.setattr(postgres, "single", dying)
        with pytest.raises(Killed):
            postgres.grant(old)
    monkeypatch.setattr(postgres, "single", single)
    for step in postgres.POSTGRES.prepare:
        step(old)
    with serving(old):
        for name in ("sluice", "airflow"):
            with closing(connected(old, name, name)) as connection:
                cursor = connection.cursor()
                cursor.execute(OWNERS)
                owners = dict(cursor.fetchall())
                assert set(MADE) <= set(owners)
                assert set(owners.values()) == {name}
                cursor.execute("INSERT INTO tasks (mood) VALUES ('more') RETURNING id, n")
                assert cursor.fetchone() == (2, 2)
                cursor.execute("ALTER TABLE tasks ADD COLUMN new int; DROP VIEW shown")
                cursor.execute("REFRESH MATERIALIZED VIEW kept")
                cursor.execute("SELECT rolname FROM pg_roles WHERE rolsuper")
                assert cursor.fetchall() == [("postgres",)]
                cursor.execute("SELECT count(*) FROM pg_auth_members WHERE member = 'metastore'::regrole")
                assert cursor.fetchone() == (0,)
                cursor.execute("SELECT datname, datdba::regrole::text FROM pg_database WHERE datallowconn")
                owned = {database for database, owner in cursor.fetchall() if database == owner}
                assert owned == {"sluice", "airflow", "metastore", "postgres"}


def test_what_was_granted_is_granted_again_only_after_a_change(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in postgres.POSTGRES.prepare:
        step(settings)
    single, runs = postgres.single, []
    monkeypatch.setattr(postgres, "single", lambda *arguments: (runs.append(1), single(*arguments))[1])
    postgres.grant(settings)
    assert runs == []
    (settings.home / "secrets" / "postgres").write_text("another")
    again = Settings(instance="test", home=settings.home, port_base=settings.port_base, network="host")
    postgres.grant(again)
    assert len(runs) == 6
    with serving(again), closing(connected(again, "sluice")) as connection:
        connection.cursor().execute("SELECT 1")


def test_an_order_that_is_refused_says_so(settings: Settings) -> None:
    postgres.initialise(settings)
    with pytest.raises(postgres.PostgresFailed, match=r"the database 'postgres':\n.*syntax error"):
        postgres.single(settings, "NONSENSE;\n\n", "postgres")
