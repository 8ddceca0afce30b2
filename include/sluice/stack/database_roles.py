"""What each role may do in the instance's PostgreSQL, as SQL for its single-user mode.

There the server's own superuser gives the orders while the server is down; nobody can log in as it. Every
order can be repeated, and brings what an older release made to the same state.
"""

from __future__ import annotations

from collections.abc import Collection

from sluice.runtime.sections import DatabaseRole, Postgres

SUPERUSER = "postgres"
#: Databases that every PostgreSQL has; no role of the platform may enter them.
SYSTEM = ("postgres", "template1")
#: In single-user mode with -j an order ends so.
END = ";\n\n"

#: The superuser that initdb made must stay one, so an older release's role gets another name.
_RENAME = """DO $$ BEGIN
IF (SELECT rolname FROM pg_authid WHERE oid = 10) <> {superuser} THEN
CREATE ROLE sluice_upgrade SUPERUSER;
SET SESSION AUTHORIZATION sluice_upgrade;
EXECUTE format('ALTER ROLE %I RENAME TO %I', (SELECT rolname FROM pg_authid WHERE oid = 10), {superuser});
SET SESSION AUTHORIZATION {superuser};
DROP ROLE sluice_upgrade;
END IF;
END $$"""
_CREATE = """DO $$ DECLARE of name; BEGIN
IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {text}) THEN CREATE ROLE {name}; END IF;
FOR of IN SELECT roleid::regrole FROM pg_auth_members WHERE member = {text}::text::regrole LOOP
EXECUTE 'REVOKE ' || of || ' FROM {name}';
END LOOP;
END $$"""
_MAY = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
#: What an older release made as the superuser. REASSIGN OWNED refuses to take things from it.
_GIVE = """DO $$ DECLARE thing text; BEGIN
FOR thing IN
SELECT format('%s %s', CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass)
FROM pg_class c WHERE relowner = 10 AND c.oid >= 16384 AND relnamespace <> 'pg_toast'::regnamespace
AND (relkind IN ('r', 'p', 'v', 'm', 'f') OR relkind = 'S' AND NOT EXISTS (SELECT FROM pg_depend d
WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')))
UNION ALL SELECT format('TYPE %s', t.oid::regtype) FROM pg_type t LEFT JOIN pg_class c ON c.oid = typrelid
WHERE typowner = 10 AND t.oid >= 16384 AND (typtype IN ('e', 'd', 'r') OR typtype = 'c' AND relkind = 'c')
UNION ALL SELECT format('ROUTINE %s', oid::regprocedure) FROM pg_proc WHERE proowner = 10 AND oid >= 16384
UNION ALL SELECT format('SCHEMA %I', nspname) FROM pg_namespace WHERE nspowner = 10 AND oid >= 16384
AND nspname !~ '^pg_'
UNION ALL SELECT format('LARGE OBJECT %s', oid) FROM pg_largeobject_metadata WHERE lomowner = 10
LOOP EXECUTE format('ALTER %s OWNER TO %I', thing, {text}); END LOOP;
END $$"""


class UnusableRole(ValueError):
    """A setting names a role that the instance's own PostgreSQL cannot have."""


def check(postgres: Postgres) -> None:
    """Raises UnusableRole."""
    users = [role.user for role in postgres.roles]
    for section, role in zip(("", "airflow.", "metastore."), postgres.roles, strict=True):
        if role.user == SUPERUSER or users.count(role.user) > 1:
            raise UnusableRole(
                f"postgres.{section}user is {role.user!r}: that is another role of the instance's own "
                "PostgreSQL. Give each of the three databases a role of its own, or leave it out"
            )
        if role.database in SYSTEM:
            raise UnusableRole(
                f"postgres.{section}database is {role.database!r}, PostgreSQL's own: give another name"
            )
        if not role.password:
            raise UnusableRole(f"postgres.{section}password is empty: remove the setting, and one is made")


def server(postgres: Postgres) -> str:
    """The orders for the whole server, to be given in one of the SYSTEM databases."""
    orders = [_RENAME.format(superuser=_text(SUPERUSER)), f"ALTER ROLE {SUPERUSER} PASSWORD NULL"]
    for role in postgres.roles:
        orders += [
            _CREATE.format(text=_text(role.user), name=_name(role.user)),
            f"ALTER ROLE {_name(role.user)} {_MAY} PASSWORD {_text(role.password)}",
        ]
    orders += [f"REVOKE ALL ON DATABASE {database} FROM PUBLIC" for database in SYSTEM]
    return _together(orders)


def databases(postgres: Postgres, there: Collection[str]) -> str:
    """The orders for the databases as a whole; `there`: those that exist."""
    orders = []
    for role in postgres.roles:
        database, owner = _name(role.database), _name(role.user)
        if role.database not in there:
            orders.append(f"CREATE DATABASE {database} OWNER {owner}")
        orders += [
            f"ALTER DATABASE {database} OWNER TO {owner}",
            f"REVOKE ALL ON DATABASE {database} FROM PUBLIC",
            # To create an extension takes this right; tables take that of a schema.
            f"REVOKE CREATE ON DATABASE {database} FROM {owner}",
        ]
    return _together(orders)


def within(role: DatabaseRole) -> str:
    """The orders for what is in the role's database, to be given there."""
    return _together([_GIVE.format(text=_text(role.user))])


def _together(orders: Collection[str]) -> str:
    return "".join(f"{order}{END}" for order in orders)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'
