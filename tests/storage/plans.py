"""How many rows the plans of PostgreSQL read: unlike times, it is the same on a machine that is busy."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa


def rows_read(database: sa.Engine, ask: Callable[[], Any]) -> int:
    """The rows of tables that are read for all that `ask` asks, by EXPLAIN."""
    asked: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, values: Any, *rest: Any) -> None:
        if statement.startswith("SELECT"):
            asked.append((statement, values))

    sa.event.listen(database, "before_cursor_execute", note)
    ask()
    sa.event.remove(database, "before_cursor_execute", note)
    read = 0
    with database.connect() as connection:
        # A table of a few pages is scanned whole, whatever index it has; here it stands for a large one.
        connection.execute(sa.text("SET LOCAL enable_seqscan = off"))
        for statement, values in asked:
            told = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", values)
            found = told.scalar_one()
            read += _of_plan((json.loads(found) if isinstance(found, str) else found)[0]["Plan"])
    return read


def _of_plan(plan: dict[str, Any]) -> int:
    """Rows that scans of the plan returned or left out."""
    own = 0
    if "Scan" in plan["Node Type"] and plan["Node Type"] != "Bitmap Index Scan":  # its heap scan has them
        left_out = sum(plan.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck"))
        own = round((plan["Actual Rows"] + left_out) * plan["Actual Loops"])
    return own + sum(map(_of_plan, plan.get("Plans", ())))
