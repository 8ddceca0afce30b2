"""What a sample has beside the figures: hot keys, load by worker, and the lines at each hop.

They have the form of the figures ({name: [[labels, value], ...]}) and are no metrics: keys are text from
lines, which no scrape may show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from sluice.runtime.positions import offset_of
from sluice.stack.progress import SpeedLayerProgress
from sluice.storage.tables import schema

HOT_KEYS, WORKER_LOAD, HOPS = "hot_keys", "worker_load", "hop_lines"
#: Most tasks in a sample, those with the hottest keys first, and the most keys and workers of each.
TASKS, KEYS, WORKERS = 20, 3, 16

Values = list[list[Any]]


def hot(progress: SpeedLayerProgress) -> dict[str, Values]:
    """Shares of the hottest keys and of the busiest workers, by task; of the speed layer's progress file."""
    keys: Values = []
    loads: Values = []
    for report in hottest(progress):
        of = {"topic": report["topic"], "task": report["task"]}
        for each in report["hot"][:KEYS]:
            keys.append([{**of, "key": [storable(value) for value in each["key"]]}, each["share"]])
        loads += [[{**of, "worker": worker}, share] for worker, share in shares(report)[:WORKERS]]
    return {HOT_KEYS: keys, WORKER_LOAD: loads}


def hottest(progress: SpeedLayerProgress) -> list[dict[str, Any]]:
    """The reports of tasks, those with the hottest keys first."""
    reports = [report for topic in progress.topics.values() for report in topic.grouping.values()]
    top = {id(each): max((key["share"] for key in each["hot"]), default=0.0) for each in reports}
    return sorted(reports, key=lambda each: (-top[id(each)], each["task"]))[:TASKS]


def shares(report: Mapping[str, Any]) -> list[tuple[int, float]]:
    """Each worker's share of the load (tuples times time) in the newest batch, the busiest first."""
    loads = {each["worker"]: each["tuples"] * each["time"] for each in report["load"]}
    total = sum(loads.values())
    found = [(worker, round(load / total, 6)) for worker, load in loads.items()] if total else []
    return sorted(found, key=lambda each: (-each[1], each[0]))


def hops(connection: sa.Connection) -> dict[str, Values]:
    """By topic: records that were committed, lines counted online, archived, and computed by nights."""
    event, chains, days = schema.event_days.c, schema.archive_chains.c, schema.days.c
    sums = {
        "online": (event.topic, event.lines),
        "archived": (chains.topic, chains.lines),
        "archived_records": (chains.topic, chains.records),
        "computed": (days.topic, days.lines),
    }
    floors = schema.archive_floors.c
    gone = {  # what retention deleted from the archive was archived, too
        hop: sa.select(floors.topic, sa.func.sum(lines)).group_by(floors.topic)
        for hop, lines in (("archived", floors.lines), ("archived_records", floors.records))
    }
    found: Values = []
    for hop, (topic, lines) in sums.items():
        rows = connection.execute(sa.select(topic, sa.func.sum(lines)).group_by(topic))
        counts = {name: int(count) for name, count in rows}
        for name, count in connection.execute(gone[hop]) if hop in gone else ():
            counts[name] = counts.get(name, 0) + int(count)
        found += [[{"topic": name, "hop": hop}, count] for name, count in counts.items()]
    found += [[{"topic": name, "hop": "records"}, records] for name, records in _committed(connection)]
    return {HOPS: found}


def _committed(connection: sa.Connection) -> Iterator[tuple[str, int]]:
    """The records below the newest commit of each topic."""
    commits = schema.commits.c
    for topic in connection.execute(sa.select(schema.projections.c.topic)).scalars().all():
        query = sa.select(commits.end).where(commits.topic == topic).order_by(commits.seq.desc()).limit(1)
        for end in connection.execute(query).scalars():
            yield topic, sum(offset_of(position) for position in end.values())


def storable(value: str) -> str:
    """A text that PostgreSQL's JSON takes: without NUL and halves of characters."""
    return value.encode(errors="replace").decode().replace("\0", "\ufffd")
