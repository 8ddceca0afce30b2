"""What each role may do in PostgreSQL: as whoever has one of the passwords, on the running server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from sluice.runtime.sections import DatabaseRole, Postgres
from sluice.runtime.settings import Settings
from sluice.stack import database_roles, secrets
from sluice.stack.database_roles import SUPERUSER, UnusableRole

ROLES = ("sluice", "airflow", "metastore")
REFUSED = (
    "COPY (SELECT 1) TO PROGRAM 'cat'",
    "CREATE TEMP TABLE said (line text); COPY said FROM PROGRAM 'id'",
    "CREATE TEMP TABLE said (line text); COPY said FROM '/etc/passwd'",
    "COPY (SELECT 1) TO '/tmp/written'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('PG_VERSION')",
    "SELECT * FROM pg_ls_dir('.')",
    "SELECT * FROM pg_ls_logdir()",
    "SELECT pg_stat_file('PG_VERSION')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(lo_from_bytea(0, 'x'), '/tmp/written')",
    "SELECT * FROM pg_hba_file_rules",
    "SELECT * FROM pg_file_settings",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_shadow",
    "SELECT passwd FROM pg_user_mapping, pg_shadow",
    "ALTER SYSTEM SET log_statement = 'all'",
    "SET log_min_messages = 'panic'",
    "SET session_replication_role = replica",
    "LOAD '/tmp/evil.so'",
    "SELECT pg_reload_conf()",
    "SELECT pg_rotate_logfile()",
    "SELECT pg_create_physical_replication_slot('mine')",
    "CREATE SUBSCRIPTION mine CONNECTION 'host=127.0.0.1' PUBLICATION theirs",
    "CREATE ROLE evil SUPERUSER",
    "CREATE ROLE evil LOGIN",
    "ALTER ROLE {role} SUPERUSER",
    "ALTER ROLE {role} CREATEROLE",
    "ALTER ROLE {role} REPLICATION",
    "ALTER ROLE {other} PASSWORD 'guessed'",
    "ALTER ROLE {superuser} PASSWORD 'guessed'",
    "GRANT {superuser} TO {role}",
    "GRANT pg_execute_server_program TO {role}",
    "GRANT pg_read_server_files TO {role}",
    "SET ROLE {superuser}",
    "SET ROLE {other}",
    "SET ROLE pg_read_server_files",
    "SET SESSION AUTHORIZATION {superuser}",
    "CREATE DATABASE evil",
    "ALTER DATABASE {other} OWNER TO {role}",
    "DROP DATABASE {other}",
    "GRANT CONNECT ON DATABASE {other} TO {role}",
    "CREATE EXTENSION dblink",
    "CREATE EXTENSION file_fdw",
    "CREATE EXTENSION pgcrypto",
    "CREATE LANGUAGE plpython3u",
    "CREATE FUNCTION evil(text) RETURNS int AS 'libc.so.6', 'system' LANGUAGE C",
    "CREATE FUNCTION evil() RETURNS text AS 'pg_read_file' LANGUAGE internal",
    "CREATE TABLESPACE evil LOCATION '/tmp'",
    "CREATE TABLE pg_catalog.evil (x int)",
    "UPDATE pg_authid SET rolsuper = true",
    "UPDATE pg_database SET datallowconn = true",
)


def role_of(settings: Settings, name: str) -> Postgres:
    postgres = settings.postgres
    return postgres if name == "sluice" else postgres.of(getattr(postgres, name))


@pytest.fixture(scope="module", params=ROLES)
def role(request: pytest.FixtureRequest, stack: Settings) -> Postgres:
    return role_of(stack, request.param)


@pytest.fixture(scope="module")
def cursor(role: Postgres) -> Iterator[Any]:
    with closing(psycopg2.connect(role.url("postgresql"))) as connection:
        connection.autocommit = True
        yield connection.cursor()


@pytest.mark.stack
def test_each_role_is_refused_what_would_lead_out_of_its_database(role: Postgres, cursor: Any) -> None:
    other = next(name for name in ROLES if name != role.user)
    passed = []
    for statement in REFUSED:
        filled = statement.format(role=role.user, other=other, superuser=SUPERUSER)
        try:
            cursor.execute(filled)
            passed.append(filled)
        except psycopg2.errors.InsufficientPrivilege:
            pass
        except psycopg2.errors.CantChangeRuntimeParam:
            pass
        finally:
            cursor.execute("RESET SESSION AUTHORIZATION; RESET ROLE; DROP TABLE IF EXISTS said")
    assert passed == []


@pytest.mark.stack
@pytest.mark.parametrize("user", [*ROLES, SUPERUSER])
@pytest.mark.parametrize("database", [*ROLES, "postgres", "template1"])
def test_each_role_enters_its_own_database_alone(stack: Settings, user: str, database: str) -> None:
    own = role_of(stack, user) if user in ROLES else stack.postgres.model_copy(update={"user": user})
    address = own.model_copy(update={"database": database}).url("postgresql")
    if user == database and user in ROLES:
        psycopg2.connect(address).close()
        return
    with pytest.raises(psycopg2.OperationalError, match=r"no pg_hba\.conf entry"):
        psycopg2.connect(address)


@pytest.mark.stack
def test_no_role_replicates(role: Postgres) -> None:
    with pytest.raises(psycopg2.OperationalError, match=r"no pg_hba\.conf entry for replication"):
        psycopg2.connect(f"{role.url('postgresql')}?replication=true")


@pytest.mark.stack
def test_the_server_itself_says_the_same(stack: Settings, role: Postgres, cursor: Any) -> None:
    """Not only pg_hba.conf: who comes in otherwise finds no right to connect, and nothing of others."""
    cursor.execute(
        "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls "
        "FROM pg_roles WHERE rolname = current_user"
    )
    assert cursor.fetchone() == (False,)
    cursor.execute("SELECT roleid::regrole::text FROM pg_auth_members WHERE member = current_user::regrole")
    assert cursor.fetchall() == []
    cursor.execute("SELECT datname FROM pg_database WHERE has_database_privilege(datname, 'CONNECT')")
    assert {name for (name,) in cursor.fetchall()} & {*ROLES, "postgres", "template1"} == {role.database}
    cursor.execute(
        "SELECT count(*) FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'S') "
        "AND pg_get_userbyid(relowner) <> current_user AND NOT pg_is_other_temp_schema(relnamespace)"
    )
    assert cursor.fetchone() == (0,)


@pytest.fixture
def known(tmp_path: Path) -> Postgres:
    secrets.make_missing(Settings(instance="test", home=tmp_path))
    return Settings(instance="test", home=tmp_path).postgres


def test_a_password_with_a_quote_ends_no_order(known: Postgres) -> None:
    odd = known.model_copy(update={"user": 'o"dd', "password": "it's; DROP ROLE"})
    orders = database_roles.server(odd)
    assert "PASSWORD 'it''s; DROP ROLE';" in orders
    assert 'ALTER ROLE "o""dd" LOGIN NOSUPERUSER' in orders


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"user": "postgres"}, r"postgres\.user is 'postgres': that is another role"),
        ({"user": "airflow"}, r"postgres\.user is 'airflow': that is another role"),
        ({"airflow": DatabaseRole(user="metastore", password="x", database="a")}, "postgres.airflow.user"),
        ({"database": "template1"}, r"postgres\.database is 'template1', PostgreSQL's own"),
        ({"password": ""}, r"postgres\.password is empty: remove the setting"),
    ],
)
def test_a_role_that_cannot_be_is_named_with_its_setting(
    known: Postgres, changed: dict[str, object], message: str
) -> None:
    with pytest.raises(UnusableRole, match=message):
        database_roles.check(known.model_copy(update=changed))


def test_an_external_server_has_the_role_that_is_given_for_all(tmp_path: Path) -> None:
    one = {"user": "platform", "password": "theirs"}
    settings = Settings(instance="test", home=tmp_path, external=frozenset({"postgres"}), postgres=one)  # type: ignore[arg-type]
    assert {(role.user, role.password) for role in settings.postgres.roles} == {("platform", "theirs")}
    assert [role.database for role in settings.postgres.roles] == list(ROLES)
    more = {**one, "airflow": {"user": "af", "password": "own", "database": "af"}}
    settings = Settings(instance="test", home=tmp_path, external=frozenset({"postgres"}), postgres=more)  # type: ignore[arg-type]
    assert (
        settings.postgres.of(settings.postgres.airflow).url("postgresql").startswith("postgresql://af:own@")
    )
    assert settings.postgres.metastore.user == "platform"
