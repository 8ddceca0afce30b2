"""Hive and HBase with a test's data, which answer only the queries that comparisons ask."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluice.runtime.settings import Settings
from sluice.storage.hbase import Cells, HBase
from sluice.storage.hive import Hive, SqlRows

FILTER = re.compile(r"RowFilter\(=, 'regexstring:(.*)'\)")
ANY = "RowFilter(=, 'regexstring:')"


class StoredHive(Hive):
    """A Hive whose `task_results` has these rows of `day_results.RESULTS` by day."""

    def __init__(self, days: Mapping[str, Sequence[dict[str, Any]]]) -> None:
        super().__init__(Settings(instance="test"))
        self.days = days
        self.queries: list[str] = []

    def query(self, sql: str, params: Any = None) -> SqlRows:
        self.queries.append(sql)
        first = params.get("day") or params.get("first") or min(self.days)
        last = params.get("day") or params.get("last") or max(self.days)
        rows = [
            (day, round(row["period_start"].timestamp() * 1000), row)
            for day, some in self.days.items()
            for row in some
            if first <= day <= last
            and all(row[name] == params.get(name, row[name]) for name in ("task_id", "version"))
        ]
        if "start" in params:
            rows = [(day, ms, row) for day, ms, row in rows if params["start"] <= ms < params["end"]]
        if " IN (" in sql:
            wanted = {int(ms) for ms in sql.partition(" IN (")[2].partition(")")[0].split(",")}
            rows = [(day, ms, row) for day, ms, row in rows if ms in wanted]
        if "explode(results)" in sql:
            return SqlRows([], [each for day, ms, row in rows for each in _exploded(row, day, ms)])
        return SqlRows([], [(ms, row["series"], *_columns(sql, row)) for _, ms, row in rows])


def _exploded(row: dict[str, Any], day: str, ms: int) -> Iterator[tuple[Any, ...]]:
    key = (row["task_id"], row["version"], day, ms, row["series"])
    texts, errors = (dict(row[name] or ()) for name in ("texts", "errors"))
    for name, value in row["results"]:
        if value is not None:
            yield (*key, name, value, texts.get(name), errors.get(name))


def _columns(sql: str, row: dict[str, Any]) -> Iterator[Any]:
    for column in sql.partition("series, ")[2].partition(" FROM")[0].split(", "):
        name, key = column.removeprefix("base64(").removesuffix("'])").split("['")
        value = dict(row[name]).get(key)
        yield None if value is None else b64encode(value).decode()


class StoredHBase(HBase):
    """An HBase table by row that notes its scans."""

    def __init__(self, rows: Mapping[bytes, Cells]) -> None:
        super().__init__("127.0.0.1", 9)
        self.rows = rows
        self.scans: list[dict[str, Any]] = []

    def scan(self, table: str, **wanted: Any) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:  # type: ignore[override]
        self.scans.append(wanted)
        pattern = FILTER.fullmatch(wanted["row_filter"] or ANY)
        assert pattern is not None
        near = re.compile(pattern[1])
        for row, cells in sorted(self.rows.items()):
            found = {name: value for name, value in cells.items() if name in wanted["columns"]}
            if row.startswith(wanted["prefix"]) and near.search(row.decode()) and found:
                yield row, found
