"""Fills an empty database as release 0.1.0 did, by its own code, and prints the rows as SQL.

`0_1_0.sql` was made so: ``git archive d63abfdfdafd include | tar -x -C OLD``, then ``PYTHONPATH=OLD/include
python fill.py URL > 0_1_0.sql``, where URL is that of a database. Modules of that release have other names
than today's.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from importlib import import_module
from typing import Any

TOPIC, TOPIC_ID = "logs", "ZqT9nS1rQ2u0"
DAY, NEXT = date(2015, 5, 17), date(2015, 5, 18)
HOUR, BEGIN = 3_600_000, 1_431_820_800_000  # the 17th, in ms
STATUS = {"name": "status", "extract": {"field": "status"}}
#: What each commit covers: the token of its writer, and the offsets up to which it counts.
COMMITS = (("aa", {"0": 100, "1": 50}), ("aa", {"0": 180, "1": 90}), ("bb", {"0": 180, "1": 120}))


def i64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def specs(*metrics: str) -> Sequence[Any]:
    """Two tasks."""
    model = import_module("sluice.tasks.spec").TaskSpec.model_validate
    hits = {"name": "hits", "topic": TOPIC, "period": "1h", "dimensions": [STATUS], "metrics": metrics}
    size = {"measure": {"field": "bytes"}, "dimensions": [], "metrics": ["count", "sum", "p95"]}
    return [model(hits), model({**hits, "name": "size", **size})]


def commit(number: int, log: Any, **more: Any) -> None:
    commits = import_module("sluice.storage.commits")
    token, end = COMMITS[number]
    start = COMMITS[number - 1][1] if number else dict.fromkeys(end, 0)
    lines = sum(end.values()) - sum(start.values())
    counts = {"records": lines, "bytes": 100 * lines, "doubled": 2, "dead": 1, "counted": lines - 3}
    log.append(
        commits.Commit(
            seq=number + 1,
            token=token,
            topic_id=TOPIC_ID,
            committed_at=datetime(2026, 11, 28, 10, number, tzinfo=UTC),
            start=start,
            end=end,
            counts=counts,
            days=[
                commits.DayLines(DAY, 0, lines - 13, end["0"] - 1),
                commits.DayLines(NEXT, 1, 10, end["1"] - 1),
            ],
            ledger=[commits.LedgerRow("web1", "/a.log", i64(0), i64(10_000 * (number + 1)))],
            dead_letters=[letter(start)],
            tallies=[tally(0, 0, lines - 3)],
            **more,
        )
    )


def letter(start: dict[str, int]) -> dict[str, Any]:
    return {
        "partition": 0 if start["0"] < 180 else 1, "offset": start["0"] if start["0"] < 180 else start["1"],
        "host": "web1", "src_file": "/a.log", "src_offset": start["0"] * 100, "reason": "no_time", "bytes": 3,
        "line": b"???", "arrived_at": datetime(2026, 11, 28, 9, tzinfo=UTC), "line_in_record": 0,
        "unreadable": None, "last_offset": None,
    }  # fmt: skip


def tally(task_id: int, version: int, counted: int) -> dict[str, Any]:
    skipped = {"filtered": 0, "unmatched": 0, "too_long": 0}
    return {"day": DAY, "task_id": task_id, "version": version, "counted": counted, **skipped}


def period(version: int, hour: int, since: int, seq: int, task: int = 1) -> Any:
    state = import_module("sluice.storage.epochs").StatePeriod
    return state(task, version, BEGIN + hour * HOUR, layout=1, since=since, seq=seq, bytes=500)


def archive(engine: Any) -> None:
    sa, files = import_module("sqlalchemy"), import_module("sluice.storage.schema").archive_files
    with engine.begin() as connection:
        for partition, first, following in ((0, 0, 100), (0, 100, 180), (1, 0, 50), (1, 50, 100)):
            size = following - first
            connection.execute(
                sa.insert(files).values(
                    topic=TOPIC, topic_id=TOPIC_ID, partition=partition, first=first, next=following,
                    records=size, lines=size, bytes=size * 40, arrival_min=BEGIN, arrival_max=BEGIN + HOUR,
                    days={"2015-05-17": [size, BEGIN, BEGIN + HOUR]}, unparsed=0, generation=3,
                    path=f"/sluice/raw/{TOPIC}/{TOPIC_ID}/{partition}/{first:020d}.parquet",
                )
            )  # fmt: skip


def books(engine: Any) -> None:
    """What the nights, a publication and a backfill left."""
    days = import_module("sluice.storage.days").Days(engine, TOPIC)
    for day, cut in ((DAY, {"0": 180, "1": 50}), (NEXT, {"0": 180, "1": 120})):
        days.set_computed(day, cut=cut, run_id="run", tasks_seq=2, raw_lines=200, lines=190)
    finals = import_module("sluice.storage.finals")
    block = finals.FinalBlock("f1v1/0", BEGIN, BEGIN + HOUR, 3, 900)
    range_ = finals.FinalRange(1, 1, BEGIN, BEGIN + 24 * HOUR, DAY, DAY, "run", (block,))
    book = finals.Finals(engine, TOPIC)
    book.reserve([block.row])
    book.publish(DAY, {"0": 180, "1": 50}, [range_])
    fills = import_module("sluice.storage.backfills")
    backfills = fills.Backfills(engine)
    asked = backfills.request(1, 2, topic=TOPIC, first_day=DAY, last_day=DAY, user="ann")
    with backfills.filling(asked) as filling:
        pointer = fills.BackfillPointer(f"b1v2/{DAY}/{BEGIN}/1/0", 1, 2, DAY, BEGIN, 1, 0, "s:1", 70)
        filling.replace(DAY, [pointer], 97)
        filling.set_projected(DAY)
    backfills.set_finished(asked.id)


def dumped(engine: Any) -> Iterator[str]:
    """All rows, and where the sequences stand."""
    sa = import_module("sqlalchemy")
    with engine.connect() as connection:
        for name in sorted({*sa.inspect(engine).get_table_names()} - {"alembic_version"}):
            columns = [column["name"] for column in sa.inspect(engine).get_columns(name)]
            values = ", ".join(f'quote_nullable("{column}"::text)' for column in columns)
            named = ", ".join(f'"{column}"' for column in columns)
            for row in sorted(map(tuple, connection.execute(sa.text(f"SELECT {values} FROM {name}")))):
                yield f"INSERT INTO {name} ({named}) VALUES ({', '.join(row)});"
        for sequence in sorted(sa.inspect(engine).get_sequence_names()):
            value = connection.scalar(sa.text(f"SELECT last_value FROM {sequence}"))
            yield f"SELECT setval('{sequence}', {value});"


def main() -> None:
    storage = import_module("sluice.storage.postgres")
    engine = storage.engine_at(sys.argv[1])
    with engine.begin() as connection:
        import_module("alembic.command").upgrade(storage.alembic_config(connection), "head")
    tasks = import_module("sluice.tasks.store").TaskStore(engine)
    import_module("sluice.tasks.topics").TopicStore(engine).freeze(TOPIC)
    log = import_module("sluice.storage.commits").CommitLog(engine, TOPIC)
    tasks.apply(specs("count"), "ann")
    commit(
        0,
        log,
        tasks=[(1, 1), (2, 1)],
        opened=[(1, 1), (2, 1)],
        periods=[period(1, 0, 1, 1), period(1, 0, 1, 1, 2)],
    )
    again = import_module("sluice.tasks.spec").TaskSpec.model_validate(
        {"name": "hits", "topic": TOPIC, "period": "1h", "dimensions": [], "metrics": ["count"]}
    )
    tasks.apply([again], "bob")
    commit(
        1,
        log,
        tasks=[(1, 2), (2, 1)],
        opened=[(1, 2)],
        closed=[(1, 1)],
        periods=[period(2, 1, 2, 2), period(1, 0, 1, 2, 2)],
    )
    tasks.set_aside(2, 1, "ArithmeticError: below zero")
    commit(2, log, tasks=[(1, 2)], closed=[(2, 1)], periods=[period(2, 1, 2, 3)])
    log.set_projected(3)
    archive(engine)
    books(engine)
    sys.stdout.write("-- Made by fill.py with the code of release 0.1.0.\n")
    sys.stdout.writelines(f"{line}\n" for line in dumped(engine))


if __name__ == "__main__":
    main()
