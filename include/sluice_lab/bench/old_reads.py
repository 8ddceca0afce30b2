"""What people and the night ask of PostgreSQL, on an instance that is old and on one that is two days old."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from sluice.archive import index
from sluice.archive.coverage import coverage
from sluice.batch import bookkeeping, offline
from sluice.batch.barred import barred
from sluice.batch.task_versions import first_arrival, task_versions
from sluice.engine.count import count
from sluice.engine.plan import EnginePlan
from sluice.quality.reconcile import speed_passed
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import (
    alerts,
    commit_progress,
    eras,
    open_periods,
    schema,
    topic_totals,
)
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.days import Days
from sluice.storage.tables.finals import Finals
from sluice.storage.tables.retention import RetentionBook
from sluice.tasks.topics import TopicStore
from sluice_lab.bench import aged, workload
from sluice_lab.bench.aged import Age

TOPIC = "logs"
#: Days of the instance that counts as new: as many as keep each commit's row between two nights.
NEW_DAYS = 2
#: Lines that a night counts, and a position that no range ends behind.
LINES, LAST = 20_000, 1 << 39
DAY = timedelta(days=1)

# The commits of the last day: one each 0.7 s, as of a topic whose lines never pause. They come after the
# night that summed up the older ones.
OPEN = """
INSERT INTO commits (topic, seq, token, topic_id, committed_at, start, "end", tasks, counts)
SELECT topic, seq + n, token, topic_id, now() - make_interval(secs => 0.7) * (:open - n),
    "end", "end", tasks, counts
FROM (SELECT * FROM commits WHERE topic = 'logs' ORDER BY seq DESC LIMIT 1) newest,
    generate_series(1, :open) n;
UPDATE projections SET seq = (SELECT max(seq) FROM commits WHERE topic = 'logs') WHERE topic = 'logs';
"""
HISTORY = """
INSERT INTO final_ranges
    (task_id, version, first, until, topic, first_day, last_day, run_id, blocks, published_at)
SELECT t, 1, ms, ms + 86400000, 'logs', current_date - d, current_date - d, 'bench',
    jsonb_build_array(jsonb_build_array('row', ms, ms + 86340000, 1440, 60000)),
    now() - make_interval(days => d - 1)
FROM generate_series(1, :active) t, generate_series(1, :days) d,
    LATERAL (SELECT 1000 * cast(extract(epoch FROM current_date - d) AS bigint) ms) at;
INSERT INTO tallies (topic, layer, day, task_id, version, counted, filtered, unmatched, too_long)
SELECT 'logs', layer, current_date - d, t, least(t, 1), 1000, 0, 10, 0
FROM generate_series(0, :active) t, generate_series(0, :days) d, (VALUES ('online'), ('offline')) l(layer);
INSERT INTO alerts (source, name, message, raised_at, cleared_at)
SELECT 'collection', 'web' || n, 'channel full', now() - make_interval(days => :days) * n / (:days * 20),
    now() - make_interval(days => :days) * n / (:days * 20) FROM generate_series(1, :days * 20) n;
INSERT INTO archive_files (topic, topic_id, partition, first, next, records, lines, bytes, arrival_min,
    arrival_max, days, unparsed, generation, path)
SELECT 'logs', 'id', p, n * 50, n * 50 + 50, 50, 5000, 100000, ms, ms,
    jsonb_build_object(cast(current_date - :days + n / :files AS text), 5000), 0, 1, 'path' || n
FROM generate_series(0, :days * :files - 1) n, generate_series(0, 3) p,
    LATERAL (SELECT 1000 * cast(extract(epoch FROM current_date - :days + n / :files) AS bigint) ms) at;
"""


@dataclass(frozen=True)
class Extent:
    """How much of what only these reads look at."""

    active: int  # tasks
    open: int = 123_000  # commits of the last day
    files: int = 24  # of the archive, of a partition and a day


class OldReads:
    """The reads of one instance; it is filled, and pruned as its nights would have done it."""

    def __init__(self, settings: Settings, how: Age, extent: Extent) -> None:
        self._settings, self._database = settings, engine(settings)
        aged.age(settings, extent.active, how)
        values = {"active": extent.active, "days": how.days, "open": extent.open, "files": extent.files}
        self._execute(HISTORY, values)
        self._prune()
        # Here one night folds what was made in all of them. Each night's room is used again by the next day.
        self._vacuum("FULL")
        self._execute(OPEN, values)
        self._vacuum("ANALYZE")
        self._lines = of_day(LINES)
        self._cut = {str(partition): how.days * extent.files * 50 for partition in range(4)}

    def _execute(self, script: str, values: dict[str, int]) -> None:
        with self._database.begin() as connection:
            for statement in filter(str.strip, script.split(";\n")):
                query = sa.text(statement)
                connection.execute(query, {name: values[name] for name in query.compile().params})

    def _vacuum(self, how: str) -> None:
        with self._database.connect() as connection:
            plain = connection.execution_options(isolation_level="AUTOCOMMIT")
            plain.execute(sa.text(f"VACUUM ({how})"))

    def _prune(self) -> None:
        """What the DAG `retention` does of it without HBase."""
        bookkeeping.run(self._settings)
        before = datetime.now(UTC) - timedelta(days=self._settings.retention.days)
        book = RetentionBook(self._database, TOPIC)
        if (floor := book.floor(before)) is not None:
            book.prune_commits(floor)

    def reads(self) -> dict[str, Callable[[], Any]]:
        """Each read by its name."""
        return {
            "audit": self._audit,
            "status": self._status,
            "reconciliation's coverage": self._coverage,
            "a page of results": self._results,
        }

    def laps(self) -> dict[str, float]:
        """The seconds of each read."""
        found = {}
        for name, read in self.reads().items():
            began = time.perf_counter()
            read()
            found[name] = time.perf_counter() - began
        return found

    def commits(self) -> int:
        """How many rows there are of them."""
        with self._database.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(schema.commits)) or 0

    def _audit(self) -> None:
        eras.logs(self._database, TOPIC)
        with self._database.connect() as connection:
            topic_totals.read(connection, TOPIC, datetime.now(UTC).date())

    def _status(self) -> None:
        """The open alerts, and how far the speed layer is: `sluice status` and `sluice lag`."""
        alerts.open_alerts(self._database)
        commit_progress.newest_commits(self._database, [TOPIC])
        with self._database.connect() as connection:
            commit_progress.committed(connection, TOPIC, datetime.now(UTC) - timedelta(minutes=1))

    def _coverage(self) -> None:
        coverage(self._database, TOPIC, (datetime.now(UTC) - DAY).date(), self._cut)

    def _results(self) -> None:
        """Where the periods of the last day come from, and what their state is."""
        finals, now = Finals(self._database, TOPIC), round(time.time() * 1000)
        finals.moment()
        sides = finals.sides((1, 1), now - 86_400_000, now)
        CommitLog(self._database, TOPIC).snapshot((1, 1, start) for start in sides.open)

    def night(self) -> dict[str, float]:
        """The seconds of a night."""
        began = time.perf_counter()
        self.compute_yesterday()
        return {"a night": time.perf_counter() - began}

    def compute_yesterday(self) -> None:
        """Yesterday is computed and compared, but for Spark, HBase and Hive, which have the same to do.

        The lines are counted by the plan that Spark's workers get.
        """
        settings, database, day = self._settings, self._database, (datetime.now(UTC) - DAY).date()
        book = Days(database, TOPIC)
        offline.days_to_compute(settings, TOPIC, day, marked=True, missed=True)
        cut = index.positions(settings, TOPIC)
        files = index.files_for(settings, TOPIC, day, cut)
        versions = task_versions(database, TOPIC, day, since=first_arrival(files))
        plan = EnginePlan.of(
            versions.tasks, settings.limits, TopicStore(database).get(TOPIC), versions.ranges
        )
        barred(database, TOPIC)
        count(self._lines, plan)
        named = {str(partition): position for partition, position in cut.items()}
        lines = len(self._lines)
        computed = book.set_computed(
            day, cut=named, run_id="bench", tasks_seq=versions.seq, raw_lines=lines, lines=lines
        )
        speed_passed(settings, TOPIC, day, named)
        waiting = open_periods.of_topic(database, TOPIC)
        task_versions(database, TOPIC, day, since=first_arrival(files), also=waiting)
        book.superseded(computed)


def of_day(size: int) -> pa.RecordBatch:
    """So many lines, as a night reads them: from positions that every version counts that is not over."""
    lines = workload.lines(size, round(DAY.total_seconds()))
    places = {"partition": pa.array(np.zeros(size, np.int32)), "offset": pa.array(LAST + np.arange(size))}
    return pa.RecordBatch.from_pydict({**places, "line": lines})


def new(how: Age) -> Age:
    """An instance with the same traffic that is new."""
    return replace(how, days=NEW_DAYS, versions=how.versions * NEW_DAYS // how.days)
