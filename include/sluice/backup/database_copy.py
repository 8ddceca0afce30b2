"""A database of PostgreSQL as it is at one moment, table by table in COPY's text form, and back again.

The platform's PostgreSQL comes without pg_dump, and a role sees only its own database. So the schema is not
copied: each database's own program makes it (the migrations, Airflow, the metastore's script), and the rows
go into it. One transaction replaces all rows of a database, so it has the backup's or its former ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
from psycopg2.extensions import ISOLATION_LEVEL_REPEATABLE_READ
from psycopg2.sql import SQL, Composed, Identifier

from sluice.backup.manifest import DamagedBackup, DumpedDatabase, DumpedTable
from sluice.backup.parts import BackupParts
from sluice.runtime.sections import Postgres

Say = Callable[[str], None]

_TABLES = """
SELECT n.nspname, c.relname, array_agg(a.attname::text ORDER BY a.attnum)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
GROUP BY 1, 2 ORDER BY 1, 2
"""
_SEQUENCES = "SELECT schemaname, sequencename, last_value FROM pg_sequences ORDER BY 1, 2"
#: References between tables, which any order of rows would break for a while.
_REFERENCES = """
SELECT n.nspname, c.relname, o.conname, pg_get_constraintdef(o.oid)
FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE o.contype = 'f' AND o.conparentid = 0 AND n.nspname !~ '^pg_' ORDER BY 1, 2, 3
"""
#: What happens when rows change: the backup has the rows as they were after that.
_TRIGGERED = """
SELECT DISTINCT n.nspname, c.relname
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT t.tgisinternal ORDER BY 1, 2
"""


class SchemaDiffers(RuntimeError):
    """The tables that were made here are not those of the backup."""


class DatabaseSnapshot:
    """One database as of the moment at which this was made; used by one thread."""

    def __init__(self, own: Postgres) -> None:
        self._name = own.database
        self.connection = psycopg2.connect(own.url("postgresql"))
        self.connection.set_session(isolation_level=ISOLATION_LEVEL_REPEATABLE_READ, readonly=True)
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT 1")  # the first statement takes the snapshot

    def rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """The query's rows, a few thousand at a time in memory."""
        with self.connection.cursor(name="sluice_backup") as cursor:
            cursor.execute(query)
            yield from cursor

    def dump(self, parts: BackupParts, folder: str, release: str, say: Say) -> DumpedDatabase:
        """Write each table's rows as a part below that folder."""
        with self.connection.cursor() as cursor:
            cursor.execute(_TABLES)
            named = cursor.fetchall()
            cursor.execute(_SEQUENCES)
            sequences = {f"{schema}.{name}": last for schema, name, last in cursor.fetchall()}
            tables = []
            for schema, name, columns in named:
                path = f"{folder}/{schema}.{name}.zst"
                with parts.writing(path) as out, pa.CompressedOutputStream(out, "zstd") as packed:
                    cursor.copy_expert(_copy(schema, name, columns, "TO STDOUT"), packed)
                    rows = cursor.rowcount
                tables.append(DumpedTable(schema, name, tuple(columns), rows, path))
                say(f"{self._name}: {len(tables)} of {len(named)} tables, {parts.bytes:,} bytes in all")
        return DumpedDatabase(release, tuple(tables), sequences)

    def close(self) -> None:
        self.connection.close()


def load(
    own: Postgres, dumped: DumpedDatabase, folder: Path, say: Say, change: Callable[[Any], None]
) -> None:
    """Replace all rows of the database by those of the backup, in one transaction.

    change: what it does with a cursor happens in the same transaction, at its end. Raises SchemaDiffers,
    DamagedBackup.
    """
    with _transaction(own) as cursor, _without_references(cursor), _without_triggers(cursor):
        _check_schema(cursor, own.database, dumped.tables)
        names = [SQL("{}.{}").format(Identifier(t.schema), Identifier(t.name)) for t in dumped.tables]
        cursor.execute(SQL("TRUNCATE {}").format(SQL(", ").join(names)))
        for number, table in enumerate(dumped.tables, 1):
            with pa.input_stream(str(folder / table.path), compression="zstd") as rows:
                cursor.copy_expert(_copy(table.schema, table.name, table.columns, "FROM STDIN"), rows)
            if cursor.rowcount != table.rows:
                raise DamagedBackup(
                    f"{table.path} has {cursor.rowcount} rows, and its manifest says {table.rows}: use "
                    "another backup"
                )
            say(f"{own.database}: {number} of {len(dumped.tables)} tables")
        for name, last in dumped.sequences.items():
            schema, _, sequence = name.partition(".")
            if last is not None:
                found = SQL("{}.{}").format(Identifier(schema), Identifier(sequence))
                cursor.execute("SELECT setval(%s::regclass, %s)", (found.as_string(cursor), last))
        change(cursor)


@contextmanager
def _transaction(own: Postgres) -> Iterator[Any]:
    connection = psycopg2.connect(own.url("postgresql"))
    with closing(connection), connection, connection.cursor() as cursor:
        yield cursor


@contextmanager
def _without_references(cursor: Any) -> Iterator[None]:
    """Leave out the references between tables meanwhile; PostgreSQL checks them when they come back."""
    cursor.execute(_REFERENCES)
    found = cursor.fetchall()
    for schema, table, name, _ in found:
        statement = SQL("ALTER TABLE {}.{} DROP CONSTRAINT {}")
        cursor.execute(statement.format(*map(Identifier, (schema, table, name))))
    yield
    for schema, table, name, definition in found:
        statement = SQL("ALTER TABLE {}.{} ADD CONSTRAINT {} ")
        cursor.execute(statement.format(*map(Identifier, (schema, table, name))) + SQL(definition))


@contextmanager
def _without_triggers(cursor: Any) -> Iterator[None]:
    """Let no trigger of a table do anything meanwhile, nor refuse that its rows are replaced."""
    cursor.execute(_TRIGGERED)
    found = cursor.fetchall()
    for does in ("DISABLE", "ENABLE"):
        for schema, table in found:
            own = SQL("ALTER TABLE {}.{} ").format(Identifier(schema), Identifier(table))
            cursor.execute(own + SQL(f"{does} TRIGGER USER"))
        if does == "DISABLE":
            yield


def _check_schema(cursor: Any, database: str, tables: Sequence[DumpedTable]) -> None:
    cursor.execute(_TABLES)
    there = {(schema, name): sorted(columns) for schema, name, columns in cursor.fetchall()}
    wanted = {(table.schema, table.name): sorted(table.columns) for table in tables}
    if names := sorted(".".join(key) for key, columns in wanted.items() if there.get(key) != columns):
        raise SchemaDiffers(
            f"the database {database!r} is made with other tables here than the backup has: "
            f"{', '.join(names[:5])}. Restore it with the release that took it"
        )


def _copy(schema: str, table: str, columns: Sequence[str], where: str) -> Composed:
    names = SQL(", ").join(map(Identifier, columns))
    return SQL("COPY {}.{} ({}) ").format(Identifier(schema), Identifier(table), names) + SQL(where)


def set_projected(cursor: Any, projected: dict[str, int]) -> None:
    """Let the projector write again what commits after these changed: their results were not copied."""
    cursor.execute("SELECT topic, seq FROM projections")
    for topic, seq in cursor.fetchall():
        until = min(seq, projected.get(topic, 0))
        cursor.execute("UPDATE projections SET seq = %s WHERE topic = %s", (until, topic))
