"""How Hive's metastore is kept to the tables that must be there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sluice.sql.tables import MARK, PREFIX, RESULTS, SqlTable
from sluice.storage.hive import Hive, literal

#: What is added to the database's name: the tables behind the views are there.
STORED = "_stored"
_MARKED = re.compile(rf"\b{re.escape(MARK)}=([0-9a-f]+)")
_VIEW = re.compile(r"^Type: VIEW$", re.MULTILINE)


def keep(hive: Hive, wanted: Sequence[SqlTable]) -> list[str]:
    """Create, replace and drop views and tables until these are there; returns what was done, a line each.

    What somebody else created under one of the names stays. Raises SqlFailed, SqlUnavailable.
    """
    return KeptTables(hive).to(wanted)


class KeptTables:
    """What there is: views under the names that people use, and the tables that these show.

    A table never changes: its name has its digest. To replace one, another is created and the view is
    altered, by one call to the metastore. So a statement finds the old one or the new one. The old one stays
    until the tables are compared again, because a statement that read the view before may look for it now.
    """

    def __init__(self, hive: Hive) -> None:
        self._hive = hive
        self._database, self._own = hive.settings.hive.database, hive.settings.hive.database + STORED
        warehouse = f"{hive.settings.hdfs.namenode}{hive.settings.hdfs.warehouse}/{self._own}.db"
        hive.query(f"CREATE DATABASE IF NOT EXISTS {self._own} LOCATION {literal(warehouse)}")
        self._views = {each.name: each for each in self._there(self._database, f"{RESULTS}|{PREFIX}*")}
        self._tables = {each.name for each in self._there(self._own, "*")}

    def to(self, wanted: Sequence[SqlTable]) -> list[str]:
        """Bring the metastore to these tables; returns what was done."""
        done = [line for table in wanted for line in self._follow(table)]
        names = {table.name for table in wanted}
        for name, view in sorted(self._views.items()):
            if view.digest and name not in names:
                self._hive.query(f"DROP {view.kind} IF EXISTS {self._database}.{name}")
                done.append(f"table {name} was dropped")
        shown = {f"{view.name}__{view.digest}" for view in self._views.values()}
        for name in sorted(self._tables - shown - {table.stored for table in wanted}):
            self._hive.query(f"DROP TABLE IF EXISTS {self._own}.{name}")
        return done

    def _follow(self, table: SqlTable) -> Iterator[str]:
        """Let the view of this name show this table."""
        view = self._views.get(table.name)
        if view is not None and not view.digest:
            yield f"table {table.name} is not the platform's own, and stays: drop it"
            return
        lost = table.stored not in self._tables
        if lost:
            self._hive.query(table.create(self._own))
        if view is not None and view.kind == "TABLE":  # of an earlier release
            self._hive.query(f"DROP TABLE IF EXISTS {self._database}.{table.name}")
        elif view is not None and view.digest == table.digest:
            if lost:
                yield f"table {table.name} was created again"
            return
        for statement in table.show(self._database, self._own, new=view is None or view.kind == "TABLE"):
            self._hive.query(statement)
        yield f"table {table.name} was {'created' if view is None else 'replaced'}"

    def _there(self, database: str, names: str) -> Iterator[There]:
        rows = self._hive.query(f"SHOW TABLE EXTENDED IN {database} LIKE '{names}'").rows
        for _, name, _, said in rows:
            found = _MARKED.search(said)
            kind: Literal["VIEW", "TABLE"] = "VIEW" if _VIEW.search(said) else "TABLE"
            yield There(name, kind, found[1] if found else "")


@dataclass(frozen=True)
class There:
    """A view or table of the metastore; without a digest it is not the platform's."""

    name: str
    kind: Literal["VIEW", "TABLE"]
    digest: str
