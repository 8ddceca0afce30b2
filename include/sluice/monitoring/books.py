"""What the database says about the platform's state, in a few queries with an index."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from sluice.storage.tables import reconciled, schema
from sluice.tasks.versions import TaskState

#: Comparisons that are older are history.
RECENT = timedelta(days=31)


def books(connection: sa.Connection) -> dict[str, Any]:
    """Counts by topic: the archive, tasks by state, reconciled and unpublished days; and open alerts."""
    days = schema.days.c
    waiting = sa.or_(days.published_at.is_(None), days.published_at < days.computed_at)
    unpublished = sa.select(days.topic, sa.func.count()).where(waiting).group_by(days.topic)
    alerts = schema.alerts.c
    opened = sa.select(alerts.source, sa.func.count()).where(alerts.cleared_at.is_(None))
    return {
        "archive": _archive(connection),
        "tasks": _tasks(connection),
        "reconciled": reconciled.counted(connection, datetime.now(UTC) - RECENT),
        "unpublished": _by_name(connection, unpublished),
        "alerts": _by_name(connection, opened.group_by(alerts.source)),
    }


def _archive(connection: sa.Connection) -> dict[str, dict[str, int]]:
    chains, losses = schema.archive_chains.c, schema.archive_losses.c
    sums = sa.select(chains.topic, *(sa.func.sum(chains[name]) for name in ("files", "lines", "bytes")))
    found = {
        topic: {"files": int(count), "lines": int(lines), "bytes": int(size), "lost_records": 0}
        for topic, count, lines, size in connection.execute(sums.group_by(chains.topic))
    }
    lost = sa.select(losses.topic, sa.func.sum(losses.next - losses.first)).group_by(losses.topic)
    for topic, records in connection.execute(lost):
        found.setdefault(topic, dict.fromkeys(("files", "lines", "bytes"), 0))["lost_records"] = int(records)
    return found


def _tasks(connection: sa.Connection) -> dict[str, dict[str, int]]:
    """Tasks by state; a task that failed is set aside, whether it is paused or not."""
    tasks = schema.tasks.c
    state = sa.case(
        (tasks.failed_at.is_not(None), TaskState.FAILED.value),
        (tasks.enabled, TaskState.ACTIVE.value),
        else_=TaskState.PAUSED.value,
    )
    query = sa.select(tasks.topic, state, sa.func.count()).where(tasks.deleted_at.is_(None))
    found: dict[str, dict[str, int]] = {}
    for topic, word, count in connection.execute(query.group_by(tasks.topic, state)):
        found.setdefault(topic, dict.fromkeys((state.value for state in TaskState), 0))[word] = count
    return found


def _by_name(connection: sa.Connection, query: sa.Select[Any]) -> dict[str, int]:
    return {name: int(count) for name, count in connection.execute(query)}
