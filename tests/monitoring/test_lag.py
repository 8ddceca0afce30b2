"""What `sluice lag` and REST show: sums, rates, owners, and what rebalances cost."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from sluice.archive.rebalances import DIED
from sluice.cli.lag import shown
from sluice.cli.output.format import plain
from sluice.monitoring.lag import measurement
from sluice.monitoring.lag.consumer_lag import Behind, LagReport, PartitionLag
from sluice.monitoring.lag.cost import costs
from sluice.monitoring.lag.measurement import TopicConsumer, partition_lag
from sluice.runtime.positions import Era, PartitionLog, position_at
from sluice.stack.progress import (
    ArchivedTopic,
    ArchiverProgress,
    ArchivingState,
    CountedTopic,
    CountingState,
    PartitionProgress,
    SpeedLayerProgress,
)
from sluice.storage.tables import commit_progress, rebalances, schema
from sluice.storage.tables.rebalances import Rebalance
from sluice.transmission.topics import Span
from tests.tasks.database import sqlite

AT = datetime(2026, 11, 23, 12, tzinfo=UTC)


def behind(records: int = 0, processed: float | None = 0.0, arriving: float = 0.0) -> Behind:
    return Behind(records, 1.0, arriving, processed)


def test_what_never_catches_up_has_no_time_for_it() -> None:
    assert behind(0).catch_up == 0
    assert behind(100, processed=30, arriving=20).catch_up == 10
    assert behind(100, processed=20, arriving=20).catch_up is None
    assert behind(100, processed=None).catch_up is None


def test_a_sum_processes_what_is_known_of_all_its_partitions_or_nobody_knows() -> None:
    assert Behind.of([behind(10, 30, 20), behind(10, 40, 20)]).catch_up == 20 / 30
    assert Behind.of([behind(10, 30, 20), behind(10, None, 20)]).processed is None
    assert Behind.of([]).processed is None


def test_a_partition_without_records_does_not_hide_that_another_s_age_is_not_known() -> None:
    keeps_up, unread, old = (
        Behind(records, seconds, 0.0, None) for records, seconds in ((0, 0.0), (9, None), (9, 7.0))
    )
    assert Behind.of([keeps_up, unread]).seconds is None
    assert Behind.of([keeps_up, unread, old]).seconds == 7.0
    assert Behind.of([keeps_up, keeps_up]).seconds == 0.0


@given(st.lists(st.tuples(st.integers(0, 99), st.none() | st.floats(0, 9)), min_size=1))
def test_a_sum_has_the_records_of_all_and_the_oldest_of_all(parts: list[tuple[int, float | None]]) -> None:
    found = Behind.of([Behind(records, seconds if records else 0.0, 2.0, None) for records, seconds in parts])
    assert found.records == sum(records for records, _ in parts)
    waits = [seconds for records, seconds in parts if records and seconds is not None]
    assert found.seconds == max(waits, default=None if found.records else 0.0)
    assert found.arriving == 2.0 * len(parts)
    assert found.processed is None


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.none() | st.integers(0, 200))
def test_a_partition_is_behind_by_what_its_log_still_has(
    start: int, then: int, end: int, position: int | None
) -> None:
    start, then, end = sorted((start, then, end))
    hop = TopicConsumer("archiver", {} if position is None else {0: position}, {0: 5.0}, {0: "archiver-2"})
    found = partition_lag("logs", hop, 0, Span(start, then, end), 7.0)
    waiting = [offset for offset in range(start, end) if offset >= (position or 0)]
    assert found.behind.records == len(waiting)
    assert found.behind.seconds == (7.0 if waiting else 0.0)
    assert found.behind.arriving == (end - then) / 60
    assert (found.member, found.behind.processed) == ("archiver-2", 5.0)


def archiver(
    *partitions: int, silent: float = 0.0, hangs: float = 0.0, pace: float = 5.0
) -> ArchiverProgress:
    """A heartbeat. silent: seconds since it was written. hangs: seconds since the topic beat, then."""
    found = {at: PartitionProgress(pace=pace) for at in partitions}
    topic = ArchivedTopic(state=ArchivingState.ARCHIVING, age=hangs, partitions=found)
    return ArchiverProgress(updated_at=datetime.now(UTC) - timedelta(seconds=silent), topics={"logs": topic})


def test_an_archiver_that_is_silent_has_no_pace_and_the_others_have() -> None:
    said = {"archiver": archiver(0, 1, silent=60), "archiver-2": archiver(2)}
    assert measurement.archiving(said, "logs") == {2: 5.0}
    assert measurement.archiving(said, "shop") == {}
    said["archiver"] = archiver(0, 1, silent=5)
    assert measurement.archiving(said, "logs") == {0: 5.0, 1: 5.0, 2: 5.0}


def test_a_topic_that_hangs_has_no_pace_although_its_archiver_beats() -> None:
    assert measurement.archiving({"archiver": archiver(0, hangs=60)}, "logs") == {}


def test_a_partition_that_moved_has_the_pace_of_the_archiver_that_wrote_last() -> None:
    said = {"archiver": archiver(0, pace=9.0), "archiver-2": archiver(0, silent=3)}
    assert measurement.archiving(said, "logs") == {0: 9.0}


def test_a_speed_layer_that_is_silent_has_no_partition() -> None:
    topic = CountedTopic(state=CountingState.COUNTING)
    said = SpeedLayerProgress(updated_at=AT - timedelta(seconds=5), topics={"logs": topic})
    assert measurement.counts(said, "logs", AT)
    assert not measurement.counts(said, "shop", AT)
    assert not measurement.counts(said, "logs", AT + timedelta(minutes=1))
    topic.state = CountingState.FAILED
    assert not measurement.counts(said, "logs", AT)
    assert not measurement.counts(SpeedLayerProgress(), "logs", AT)


def commit(seq: int, seconds: int, start: int, end: int, topic_id: str = "x") -> dict[str, object]:
    at = AT + timedelta(seconds=seconds)
    row = {"topic": "logs", "seq": seq, "token": "t", "topic_id": topic_id, "committed_at": at}
    return {**row, "tasks": [], "counts": {}, "start": {"0": start}, "end": {"0": end}}


def test_the_speed_layer_s_pace_is_that_of_the_commits_of_the_last_minute() -> None:
    database = sqlite()
    rows = [commit(1, -500, 0, 10), commit(2, -70, 10, 40), commit(3, -30, 40, 90), commit(4, -1, 90, 100)]
    with database.begin() as connection:
        connection.execute(sa.insert(schema.commits), rows)
        found = commit_progress.committed(connection, "logs", AT - timedelta(minutes=1))
        assert (found.now, found.then) == ({0: 100}, {0: 40})
        young = commit_progress.committed(connection, "logs", AT - timedelta(hours=1))
        assert (young.now, young.then) == ({0: 100}, {0: 0})


def test_offsets_of_an_earlier_generation_are_where_the_log_begins_now() -> None:
    log = PartitionLog((Era(0, "old", 0, 0), Era(1, "x", 0, 0, 70)))
    spans, positions = {0: Span(0, 0, 30)}, ({0: 70}, {0: position_at(1, 20)}, {0: 40, 1: 5})
    assert [measurement.in_kafka(at, spans, {0: log}) for at in positions] == [{0: 0}, {0: 20}, {0: 0}]


def rebalance(
    seconds: float, gained: tuple[int, ...] = (), lost: tuple[int, ...] = (), took: float | None = None
) -> Rebalance:
    return Rebalance("logs", "archiver", 1, AT + timedelta(seconds=seconds), "because", gained, lost, took)


def test_a_partition_stands_still_from_its_last_owner_s_end_to_its_next_one_s_first_read() -> None:
    found = costs([rebalance(0, lost=(1, 2)), rebalance(3, gained=(2,), took=0.5)], 10)
    assert [each.stood_still for each in found] == [3.5, None]
    assert [each.gained for each in found] == [(2,), ()]


def test_a_partition_whose_owner_died_counts_from_that_one_s_last_heartbeat_if_it_is_known() -> None:
    had, died = rebalance(-50, gained=(2,), took=0.1), rebalance(-9, lost=(1, 2))
    assert costs([rebalance(2, gained=(2,), took=0.5), died, had], 1)[0].stood_still == 11.5


def test_a_partition_whose_owner_died_unheard_counts_from_its_next_assignment() -> None:
    died = [rebalance(-50, lost=(2,)), rebalance(-49, gained=(2,), took=0.1)]
    assert costs([*died, rebalance(3, gained=(2,), took=0.5)], 1)[0].stood_still == 0.5


def test_a_group_that_was_stopped_did_not_stand_still_for_a_rebalance() -> None:
    assert costs([rebalance(-3000, lost=(2,)), rebalance(0, gained=(2,), took=1)], 1)[0].stood_still == 1


def test_an_outage_of_a_member_that_died_counts_however_long_it_was() -> None:
    died = replace(rebalance(-3000, lost=(2,)), why=DIED)
    assert costs([died, rebalance(0, gained=(2,), took=1)], 1)[0].stood_still == 3001


def test_a_rebalance_that_another_overtook_has_no_time() -> None:
    assert costs([rebalance(0, lost=(1,)), rebalance(1, gained=(1,))], 1)[0].stood_still is None


def test_each_partition_of_a_rebalance_has_its_own_time() -> None:
    given_up = [rebalance(0, lost=(1,)), rebalance(1, lost=(2,))]
    taken = [
        rebalance(3, gained=(1,), took=0.5),
        rebalance(3, gained=(2,)),
        rebalance(3, gained=(4,), took=0.1),
    ]
    found = costs([*taken, *given_up], 10)
    assert len(found) == 3, "rows of one time and member are of one rebalance"
    assert found[0].by_partition == {1: 3.5, 2: None, 4: 0.1}
    assert (found[0].gained, found[0].stood_still) == ((1, 2, 4), 3.5)


def test_a_row_of_several_partitions_as_older_releases_wrote_it_is_shown_too() -> None:
    (found,) = costs([rebalance(0, gained=(1, 2), took=0.5)], 10)
    assert found.by_partition == {1: 0.5, 2: 0.5}


def test_only_the_last_rebalances_of_a_topic_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalances, "KEPT", 3)
    database = sqlite()
    rebalances.add(database, [Rebalance("shop", "m", 1, AT, "w", (9,), (), 0.5)])
    for second in range(4):
        rebalances.add(database, [rebalance(second, gained=(n,)) for n in (2 * second, 2 * second + 1)])
    rebalances.add(database, [rebalance(9, gained=(8,))])
    rebalances.add(database, [])
    with database.connect() as connection:
        assert [each.gained for each in rebalances.last(connection, "logs", 9)] == [(8,), (7,), (6,)]
        (other,) = rebalances.last(connection, "shop", 9)
    assert other == Rebalance("shop", "m", 1, AT, "w", (9,), (), 0.5)


def report() -> LagReport:
    partitions = [
        PartitionLag("logs", "archiver", 0, "archiver", 5, 105, Behind(100, 2.0, 10.0, 20.0)),
        PartitionLag("logs", "archiver", 1, "archiver-2", 0, 50, Behind(50, None, 10.0, None)),
        PartitionLag("logs", "speed_layer", 0, None, 105, 105, Behind(0, 0.0, 10.0, 10.0)),
    ]
    moved = costs([rebalance(0, lost=(1,)), rebalance(2, gained=(1,), took=0.5)], 9)
    return LagReport(AT, tuple(partitions), tuple(moved), {"shop": "Kafka does not say: gone"})


def test_a_person_sees_topics_members_partitions_rebalances_and_problems() -> None:
    topics, members, partitions, moved, problem = shown(report()).split("\n\n")
    assert "logs   archiver         150  2.0 s   20.0        ?            ?" in topics
    assert "logs   archiver  archiver    0" in members
    assert "speed_layer" not in members, "nobody has its partition"
    assert "nobody" in partitions
    assert "because" in moved
    assert "1: 2.5 s" in moved
    assert problem == "shop: Kafka does not say: gone\n"


def test_a_program_gets_the_same_as_json() -> None:
    document = json.loads(json.dumps(plain(report().document())))
    assert [each["records"] for each in document["topics"]] == [150, 0]
    assert [(each["member"], each["partitions"]) for each in document["members"]] == [
        ("archiver", [0]),
        ("archiver-2", [1]),
    ]
    assert [each["catch_up"] for each in document["partitions"]] == [10, None, 0]
    assert document["rebalances"][0]["stood_still"] == 2.5
    assert document["rebalances"][0]["by_partition"] == [{"partition": 1, "stood_still": 2.5}]
    assert report().only("shop").document()["problems"] == document["problems"]
    assert not report().only("shop").partitions
