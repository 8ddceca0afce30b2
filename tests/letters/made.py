"""Dead letters for tests: as the speed layer would have booked them, in a database without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from sluice.storage.tables import schema
from sluice.storage.tables.dead_letters import DeadLetter

AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


def letter(offset: int = 0, line: bytes = b"no time", **changed: Any) -> DeadLetter:
    given: dict[str, Any] = {
        "topic": "logs",
        "partition": 0,
        "offset": offset,
        "line_in_record": 0,
        "host": "web1",
        "src_file": "a.log",
        "src_offset": 100 * offset,
        "reason": "no event time",
        "size": len(line),
        "line": line,
        "arrived_at": AT + timedelta(seconds=offset % 1_000),
    }
    return DeadLetter(**{**given, **changed})


def book(database: sa.Engine, *letters: DeadLetter) -> None:
    """Write them into the table."""
    rows = [{**vars(each), "bytes": each.size} for each in letters]
    with database.begin() as connection:
        connection.execute(
            sa.insert(schema.dead_letters),
            [{name: row[name] for name in row if name != "size"} for row in rows],
        )
