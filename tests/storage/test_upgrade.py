"""A database of release 0.1.0 is brought to today's schema, and today's code reads it right.

Its rows are in `released/0_1_0.sql`; `released/fill.py` made them by that release's own code, and says how.
They are of a topic with two partitions that was counted while lines came: two writers, a task that changed,
one that was set aside, a published day, and a backfill.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.archive import index
from sluice.batch.task_versions import ranges_of, task_versions
from sluice.engine.plan import Range
from sluice.runtime.positions import PartitionLog, position_at
from sluice.runtime.settings import Settings
from sluice.speed.ledger import ByteLedger
from sluice.speed.offsets import OffsetBounds, starting_positions
from sluice.storage.postgres import SchemaRefused, engine, migrate
from sluice.storage.tables import eras, topic_totals
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.commits import Commit, CommitLog, DayLines, LedgerRow
from sluice.storage.tables.days import Days
from sluice.storage.tables.epochs import StatePeriod
from sluice.storage.tables.eras import LookedAt
from sluice.storage.tables.finals import Finals
from sluice.storage.tables.folding import fold
from sluice.tasks.store import TaskStore
from sluice.tasks.versions import TaskState
from tests.own_postgres import connected, make_cluster, own_settings, serving
from tests.storage.released.fill import BEGIN, COMMITS, DAY, HOUR, NEXT, TOPIC, TOPIC_ID, i64

pytestmark = pytest.mark.slow

#: The last revision of 0.1.0.
RELEASED = "0025"
ROWS = Path(__file__).parent / "released" / "0_1_0.sql"
#: What each partition has in Kafka: lines came while nothing counted.
ENDS = {0: 200, 1: 130}
WHOLE = {"0": 180, "1": 120}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    own = own_settings(tmp_path_factory.mktemp("server") / "home")
    make_cluster(own)
    with serving(own):
        yield own


@pytest.fixture
def old(server: Settings) -> Iterator[Settings]:
    """The settings of a database as 0.1.0 left it."""
    with closing(connected(server, "postgres")) as connection:
        connection.cursor().execute("CREATE DATABASE released")
    own = server.model_copy(update={"postgres": server.postgres.model_copy(update={"database": "released"})})
    migrate(own, RELEASED)
    with closing(connected(server, "released")) as connection:  # the rows are in the order of names
        connection.cursor().execute(f"SET session_replication_role = replica; {ROWS.read_text()}")
    yield own
    engine(own).dispose()
    with closing(connected(server, "postgres")) as connection:
        connection.cursor().execute("DROP DATABASE released WITH (FORCE)")


@pytest.fixture
def upgraded(old: Settings) -> Settings:
    migrate(old)
    migrate(old)  # `sluice up` does it each time
    return old


def look(
    settings: Settings, topic_id: str = TOPIC_ID, ends: Mapping[int, int] = ENDS
) -> dict[int, PartitionLog]:
    """What the speed layer does first: it looks at Kafka's log, which has these ends."""
    database = engine(settings)
    known = eras.known(database, TOPIC, topic_id, ends)
    found = {number: LookedAt(topic_id, 7, end, known[number]) for number, end in ends.items()}
    assert eras.looked_at(database, TOPIC, found) == []
    return eras.logs(database, TOPIC)


def test_the_positions_are_those_that_were_counted_and_nothing_is_lost(upgraded: Settings) -> None:
    log = CommitLog(engine(upgraded), TOPIC)
    head = log.head()
    assert head is not None
    assert (head.seq, head.token, head.topic_id, head.end) == (3, "bb", TOPIC_ID, WHOLE)
    logs = look(upgraded)
    bounds = OffsetBounds(TOPIC_ID, logs, dict.fromkeys(ENDS, 0), ENDS)
    assert starting_positions(head.end, bounds) == (WHOLE, [])
    ends = {number: logs[number].position(end) for number, end in ENDS.items()}
    assert ends == ENDS  # in the first era a position is Kafka's offset
    assert [logs[n].records(WHOLE[str(n)], end) for n, end in ends.items()] == [20, 10]


def test_a_topic_made_again_since_is_counted_from_its_beginning(upgraded: Settings) -> None:
    """Nothing of it has the positions of what 0.1.0 counted."""
    logs = look(upgraded, topic_id="another", ends={0: 30, 1: 0})
    start, lost = starting_positions(WHOLE, OffsetBounds("another", logs, {0: 0, 1: 0}, {0: 30, 1: 0}))
    assert start == {"0": position_at(1, 0), "1": position_at(1, 0)}
    assert [(each.partition, each.first, each.next, each.counted) for each in lost] == [
        (0, 0, 180, True),
        (1, 0, 120, True),
    ]
    assert logs[0].records(position_at(1, 0), logs[0].position(30)) == 30


def test_each_line_belongs_to_exactly_one_version_of_a_task(upgraded: Settings) -> None:
    found = ranges_of(engine(upgraded), TOPIC)
    ends = [dict.fromkeys("01", 0), *(end for _, end in COMMITS)]
    assert found == {
        (1, 1): [Range.of(ends[0], ends[1])],
        (1, 2): [Range.of(ends[1], None)],
        (2, 1): [Range.of(ends[0], ends[2])],
    }
    with engine(upgraded).connect() as connection:  # readers find those that ended by an index
        rows = connection.execute(sa.text("SELECT task_id, version, end_seq FROM task_ranges ORDER BY 1, 2"))
        assert [tuple(row) for row in rows] == [(1, 1, 2), (1, 2, None), (2, 1, None)]
    log = CommitLog(engine(upgraded), TOPIC)
    assert log.open_versions() == {(1, 2)}
    versions = task_versions(engine(upgraded), TOPIC, DAY)
    assert [(task.spec.name, task.version) for task in versions.tasks] == [
        ("hits", 1),
        ("hits", 2),
        ("size", 1),
    ]
    assert versions.filled == {(1, 2): [Range.of({}, ends[1])]}


def test_tasks_stand_as_they_stood(upgraded: Settings) -> None:
    store = TaskStore(engine(upgraded))
    found = {task.name: (task.version, task.state, task.error) for task in store.list()}
    assert found == {
        "hits": (2, TaskState.ACTIVE, None),
        "size": (1, TaskState.FAILED, "ArithmeticError: below zero"),
    }
    assert [task.label for task in store.active(TOPIC)] == ["1v2"]
    assert [each.action for each in store.history("size")] == ["created", "failed"]
    assert store.resume("size", "ann").state == TaskState.ACTIVE


def test_the_next_commit_goes_on_and_no_copy_of_a_line_counts_again(upgraded: Settings) -> None:
    database, logs = engine(upgraded), look(upgraded)
    log = CommitLog(database, TOPIC)
    ledger = ByteLedger.from_rows(vars(row) for row in log.ledger())
    assert ledger.files() == [("web1", "/a.log")]
    assert (ledger.covered("web1", "/a.log"), ledger.end("web1", "/a.log")) == (30_000, 30_000)
    commit = Commit(
        seq=4,
        token="cc",
        topic_id=TOPIC_ID,
        committed_at=datetime.now(UTC),
        start=WHOLE,
        end={"0": 200, "1": 130},
        tasks=[(1, 2)],
        counts={"lines": 30, "bytes": 3_000, "doubled": 0, "dead": 0, "counted": 30},
        periods=[StatePeriod(1, 2, BEGIN + HOUR, 1, 2, 4, 600)],
        ledger=[LedgerRow("web1", "/a.log", i64(0), i64(33_000))],
        days=[DayLines(DAY, 0, 20, 199), DayLines(NEXT, 1, 10, 129)],
        read_at={number: (each.newest.era, each.newest.epoch) for number, each in logs.items()},
    )
    log.append(commit)
    head = log.head()
    assert head is not None
    assert (head.seq, log.projected(), head.end) == (4, 3, {"0": 200, "1": 130})
    changed = log.changed_since(3)
    assert {key: period.since for key, period in changed.snapshot.periods.items()} == {
        (1, 2, BEGIN + HOUR): 2
    }
    with database.connect() as connection:
        totals = topic_totals.read(connection, TOPIC, date(2026, 11, 29))
    assert (totals.lines, totals.doubled, totals.dead, totals.counted) == (330, 6, 3, 321)
    assert (totals.event_lines, totals.dead_rows, totals.last_seq) == (321, 3, 4)
    assert dict(totals.ledger)["web1", "/a.log"][1].tolist() == [33_000]


def test_the_books_of_commits_add_up_before_and_after_they_are_folded(upgraded: Settings) -> None:
    def said() -> tuple[Any, ...]:
        with engine(upgraded).connect() as connection:
            found = topic_totals.read(connection, TOPIC, date(2026, 11, 29))
        return found.lines, found.counted, found.dead, found.doubled, found.event_lines, found.archived_to

    before = said()
    assert before == (300, 291, 3, 6, 291, {0: 180, 1: 100})
    assert fold(engine(upgraded), TOPIC, datetime(2026, 11, 29, tzinfo=UTC)) >= 0
    assert said() == before
    head = CommitLog(engine(upgraded), TOPIC).head()
    assert head is not None
    assert head.end == WHOLE


def test_the_archive_goes_on_where_it_ended_and_a_day_reads_each_file_once(upgraded: Settings) -> None:
    assert index.positions(upgraded, TOPIC) == {0: 180, 1: 100}
    assert index.positions_of(upgraded, TOPIC, [0, 1, 2]) == {0: 180, 1: 100, 2: 0}
    files = index.files_for(upgraded, TOPIC, DAY, {0: 180, 1: 60})
    assert [(each.partition, each.first, each.next) for each in files] == [
        (0, 0, 100), (0, 100, 180), (1, 0, 50), (1, 50, 100),
    ]  # fmt: skip


def test_results_come_from_the_side_that_is_right(upgraded: Settings) -> None:
    database = engine(upgraded)
    days = Days(database, TOPIC)
    first, second = days.get(DAY), days.get(NEXT)
    assert first is not None
    assert second is not None
    assert (first.published_cut, second.published_cut) == ({"0": 180, "1": 50}, None)
    assert days.superseded(first) is not None  # it was filled after it was computed
    assert days.superseded(second) == "task version 2v1 began or ended below the cut after it was computed"
    finals = Finals(database, TOPIC)
    old_version = finals.sides((1, 1), BEGIN, BEGIN + 24 * HOUR)
    assert [each.blocks[0].row for each in old_version.final] == ["f1v1/0"]
    new = finals.sides((1, 2), BEGIN, BEGIN + 24 * HOUR)
    assert (new.final, new.open) == ((), (BEGIN, BEGIN + HOUR))
    assert [pointer.row for pointer in new.filled[BEGIN]] == [f"b1v2/{DAY}/{BEGIN}/1/0"]
    backfills = Backfills(database)
    assert backfills.boundary(1, 2) == COMMITS[0][1]
    assert [(each.day, each.lines, each.projected) for each in backfills.filled(TOPIC)] == [(DAY, 97, True)]


def test_the_released_code_s_schema_is_refused_by_none_and_a_newer_one_is(upgraded: Settings) -> None:
    """A downgrade says which release knows the schema, and changes nothing."""
    with engine(upgraded).begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(
        SchemaRefused, match="of a newer release: its schema has the revision 9999"
    ) as refused:
        migrate(upgraded)
    assert "Nothing was changed. Check that release out again" in str(refused.value)
    head = CommitLog(engine(upgraded), TOPIC).head()
    assert head is not None
    assert head.seq == 3
