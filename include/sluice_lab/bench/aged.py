"""What an instance's PostgreSQL holds of one topic after years of changed tasks and 400 days of commits."""

from __future__ import annotations

import json
from dataclasses import dataclass

import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice_lab.bench import workload
from sluice_lab.bench.databases import administer

#: The first id of a task that is over.
FIRST = 1_000
VERSIONS_A_TASK = 4
PARTITIONS = 4


@dataclass(frozen=True)
class Age:
    """How much is in the tables. Retention keeps `days` of everything but the tasks, which it never drops."""

    versions: int = 100_000  # that are over
    days: int = 400
    commits: int = 2_500  # a day
    starts: int = 2  # of a writer, a day: each is an epoch
    periods: int = 2_400  # a day, that have state
    files: int = 10  # a day, in the ledger
    dead: int = 50  # a day

    @property
    def tasks(self) -> int:
        """The tasks that are deleted."""
        return self.versions // VERSIONS_A_TASK

    @property
    def head(self) -> int:
        """The number of the newest commit."""
        return self.days * self.commits


TASKS = """
INSERT INTO tasks (id, name, topic, enabled, version, deleted_at)
SELECT :first + n, 'over' || n, 'logs', true, :a_task, now() - make_interval(days => :days) * n / :tasks
FROM generate_series(1, :tasks) n;
INSERT INTO task_versions (task_id, version, spec, created_by)
SELECT :first + n, v, cast(:spec AS jsonb), 'bench'
FROM generate_series(1, :tasks) n, generate_series(1, :a_task) v;
INSERT INTO task_changes (task_id, version, action, by)
SELECT :first + n, v, action, 'bench'
FROM generate_series(1, :tasks) n, generate_series(1, :a_task) v, (VALUES ('changed'), ('paused')) a(action);
"""
# Each version counted for the time between two commits, which opened and closed it.
RANGES = """
INSERT INTO task_ranges (task_id, version, first_seq, topic, start, "end", end_seq)
SELECT :first + n, v, seq, 'logs', jsonb_build_object('0', n, '1', n, '2', n, '3', n),
    jsonb_build_object('0', n, '1', n, '2', n, '3', n + 9), seq + 1
FROM generate_series(1, :tasks) n, generate_series(1, :a_task) v,
    LATERAL (SELECT 1 + (cast(n * :a_task + v AS bigint) * (:head - 2) / (:versions + :a_task)) seq) at;
INSERT INTO task_ranges (task_id, version, first_seq, topic, start)
SELECT n, 1, 1, 'logs', '{}' FROM generate_series(1, :active_tasks) n;
"""
COMMITS = """
INSERT INTO commits (topic, seq, token, topic_id, committed_at, start, "end", tasks, counts)
SELECT 'logs', n, to_hex(n / :an_epoch), 'id', now() - make_interval(days => :days) * (:head - n) / :head,
    jsonb_build_object('0', 9 * n, '1', 9 * n, '2', 9 * n, '3', 9 * n),
    jsonb_build_object('0', 9 * n + 9, '1', 9 * n + 9, '2', 9 * n + 9, '3', 9 * n + 9),
    cast(:active AS jsonb), cast(:counts AS jsonb)
FROM generate_series(1, :head) n;
INSERT INTO epochs (topic, first_seq, token)
SELECT 'logs', greatest(1, n * :an_epoch), to_hex(n) FROM generate_series(0, :head / :an_epoch) n;
INSERT INTO projections (topic, seq) VALUES ('logs', :head);
"""
STATE = """
INSERT INTO state_periods (topic, task_id, version, period_start, layout, since, seq, bytes)
SELECT 'logs', 1 + n % :active_tasks, 1, 1000 * (cast(extract(epoch FROM now()) AS bigint)
        - 86400 * cast(:days AS bigint) * (:days * :periods - n) / (:days * :periods)), 1,
    s, s, 60000
FROM generate_series(1, :days * :periods) n,
    LATERAL (SELECT greatest(1, n * cast(:head AS bigint) / (:days * :periods)) s) at;
INSERT INTO ledger (topic, host, src_file, starts, ends, last_seen)
SELECT 'logs', 'web' || f, 'access.' || d || '.log', '\\x0000000000000000', '\\x0000001000000000',
    now() - make_interval(days => d)
FROM generate_series(1, :files) f, generate_series(1, :days) d;
INSERT INTO event_days (topic, day, partition, lines, last_offset)
SELECT 'logs', current_date - d, p, 1000000, 9 * (:days - d) * cast(:head AS bigint) / :days
FROM generate_series(0, :days) d, generate_series(0, 3) p;
INSERT INTO days (topic, day, cut, run_id, tasks_seq, raw_lines, lines)
SELECT 'logs', current_date - d, jsonb_build_object('0', e, '1', e, '2', e, '3', e), 'bench',
    greatest(1, cast(:head AS bigint) * (:days - d + 1) / :days), 1000000, 1000000
FROM generate_series(1, :days) d,
    LATERAL (SELECT 9 * (:days - d) * cast(:head AS bigint) / :days + 1 e) at;
INSERT INTO dead_letters (topic, partition, "offset", reason, bytes, line, arrived_at)
SELECT 'logs', n % 4, n, 'no time', 100, '\\x00', now() - make_interval(days => :days) * n / (:days * :dead)
FROM generate_series(1, :days * :dead) n;
"""
COUNTS = {"records": 1000, "bytes": 150_000, "doubled": 0, "dead": 0, "counted": 1000}


def age(settings: Settings, active: int, how: Age) -> None:
    """Fill a database whose tasks 1 to `active` count now; its planner's statistics are up to date."""
    values = {
        "first": FIRST, "tasks": how.tasks, "a_task": VERSIONS_A_TASK, "versions": how.versions,
        "days": how.days, "head": how.head, "an_epoch": max(1, how.commits // how.starts),
        "periods": how.periods, "files": how.files, "dead": how.dead, "active_tasks": active,
        "active": json.dumps([[number, 1] for number in range(1, active + 1)]),
        "counts": json.dumps(COUNTS),
        "spec": json.dumps(workload.tasks(1)[0].model_dump(mode="json", exclude_none=True)),
    }  # fmt: skip
    with engine(settings).begin() as connection:
        for script in (TASKS, RANGES, COMMITS, STATE):
            for statement in filter(str.strip, script.split(";\n")):
                query = sa.text(statement)
                connection.execute(query, {name: values[name] for name in query.compile().params})
    with engine(settings).connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("VACUUM ANALYZE"))
    administer(settings, "CHECKPOINT")
