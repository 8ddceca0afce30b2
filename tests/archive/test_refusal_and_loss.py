"""What the archiver refuses, what it writes down as lost, and how its index is rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest
import sqlalchemy
from sqlalchemy import delete, select

from sluice.archive import index, service
from sluice.archive.file import of_loss
from sluice.archive.verification import verify
from sluice.runtime.positions import position_at
from sluice.storage.hdfs import HdfsStore
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts
from sluice.storage.tables.schema import archive_files, archive_losses
from sluice_lab.waiting import until
from tests.archive.archive_trial import Here, Trial, sluice_archive

pytestmark = pytest.mark.stack


def stands(trial: Trial, first: int, following: int) -> None:
    """Put a file that covers these offsets into partition 0's directory, as a person might."""
    trial.claims().publish(of_loss(trial.place(), first, following, "put here by hand", generation=0))


def refused(here: Here) -> str | None:
    state = here.partition(0)
    return str(state["message"]) if state.get("state") == "refused" else None


def open_alerts(trial: Trial) -> list[str]:
    mine = f"{trial.topic}/0"
    return [a.message for a in alerts.open_alerts(engine(trial.settings), "archive") if mine in a.name]


def all_alerts(trial: Trial) -> list[alerts.Alert]:
    return [a for a in alerts.open_alerts(engine(trial.settings), "archive") if trial.topic in a.name]


def lost_ranges(trial: Trial) -> list[tuple[int, int, int]]:
    query = select(archive_losses.c.partition, archive_losses.c.first, archive_losses.c.next)
    with engine(trial.settings).connect() as connection:
        found = connection.execute(query.where(archive_losses.c.topic == trial.topic))
        return sorted(tuple(row) for row in found)


def rows(trial: Trial) -> list[sqlalchemy.Row[tuple[object, ...]]]:
    columns = [column for column in archive_files.c if column.name != "indexed_at"]
    query = select(*columns).where(archive_files.c.topic == trial.topic)
    with engine(trial.settings).connect() as connection:
        return sorted(connection.execute(query), key=str)


def test_a_gap_between_files_stops_the_partition_until_it_is_declared_lost(
    trial: Trial, archive_here: Callable[..., Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.archive.partition.BROKEN_DELAY_SECONDS", 0.5)
    trial.produce(40, partition=0)
    trial.produce(10, partition=1)
    stands(trial, 0, 10)
    stands(trial, 15, 20)
    here = archive_here()
    message = until(lambda: refused(here), what="it refuses")
    assert f"archive of topic '{trial.topic}', partition 0: offsets 10 to 14 are missing" in message
    until(lambda: open_alerts(trial) == [message], what="the refusal is an alert")
    until(lambda: len(trial.archived()[1]) == 10, what="the other partition goes on")
    assert "offsets 10 to 14 are missing" in "".join(trial.verified()[trial.topic_id, 0].problems)
    with pytest.raises(service.NoSuchGap, match="its gaps: 10-14"):
        service.record_gap(trial.settings, trial.topic, 0, 12)

    service.record_gap(trial.settings, trial.topic, 0, 10)
    until(lambda: len(trial.archived()[0]) == 20, what="it goes on")
    assert (0, 10, 15) in lost_ranges(trial)
    assert trial.ends() == {(trial.topic_id, 0): 40, (trial.topic_id, 1): 10}
    until(lambda: message not in open_alerts(trial), what="the refusal is over")


def test_an_overlap_of_files_stops_the_partition(trial: Trial, archive_here: Callable[..., Here]) -> None:
    trial.produce(40, partition=0)
    stands(trial, 0, 20)
    stands(trial, 10, 30)
    here = archive_here()
    message = until(lambda: refused(here), what="it refuses")
    assert "offsets 10 to 19 are both in" in message
    assert trial.claims().path(10) in message


def test_an_archive_ahead_of_kafka_goes_on_with_what_comes_to_its_offsets(
    trial: Trial, archive_here: Callable[..., Here]
) -> None:
    trial.produce(10, partition=0)
    stands(trial, 0, 20)
    archive_here()
    place = trial.topic_id, 0
    until(lambda: trial.verified()[place].next == position_at(1, 10), what="it notices")
    trial.produce(30, partition=0)
    until(lambda: len(trial.archived()[0]) == 30, what="what came since is archived")
    assert trial.ends()[trial.topic_id, 0] == position_at(1, 40)
    told = "Kafka lost the records of"
    until(lambda: any(told in each.message for each in all_alerts(trial)), what="the loss is an alert")


def test_a_file_of_another_kind_stops_the_partition(trial: Trial, archive_here: Callable[..., Here]) -> None:
    trial.produce(10, partition=0)
    store = HdfsStore.of(trial.settings)
    store.write(trial.claims().path(0), b"not a Parquet file")
    here = archive_here()
    message = until(lambda: refused(here), what="it refuses")
    assert f"{trial.claims().path(0)}: it does not end as a Parquet file does" in message


def test_what_kafka_no_longer_has_is_written_down_as_lost(
    trial: Trial, archive_here: Callable[..., Here]
) -> None:
    trial.produce(100, partition=0)
    trial.delete_records(0, before=30)
    here = archive_here()
    until(lambda: len(trial.archived()[0]) == 70, what="the rest is archived")
    here.stop()
    trial.produce(100, partition=0)
    trial.delete_records(0, before=150)
    archive_here()
    until(lambda: len(trial.archived()[0]) == 120, what="the rest is archived")

    assert lost_ranges(trial) == [(0, 0, 30), (0, 100, 150)]
    assert trial.ends()[trial.topic_id, 0] == 200
    assert [trial.claims().footer(file).loss is None for file in trial.claims().files()].count(False) == 2
    told = f"offsets 100 to 149 of {trial.topic}/0: Kafka deleted them before they were archived"
    until(lambda: any(told in message for message in open_alerts(trial)), what="the loss is an alert")


def test_records_deleted_under_a_running_archiver_are_written_down_as_lost(
    trial: Trial, archive_here: Callable[..., Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.archive.inbox.WAITING_BYTES", 0)  # always full: paused after one poll
    trial.produce(50, partition=0)
    archive_here()
    until(lambda: len(trial.archived()[0]) == 50, what="it has begun")
    # No fetch gets a line of the other partition before the one that was under way at the pause came back.
    trial.produce(1, partition=1)
    until(lambda: trial.archived()[1], what="the other partition is read")
    trial.produce(50, partition=0)
    trial.delete_records(0, before=80)
    monkeypatch.setattr("sluice.archive.inbox.WAITING_BYTES", 16 << 20)
    until(lambda: len(trial.archived()[0]) == 70, what="the rest is archived")
    assert lost_ranges(trial) == [(0, 50, 80)]
    assert trial.ends()[trial.topic_id, 0] == 100


def test_the_index_is_rebuilt_from_the_footers(trial: Trial, archive_here: Callable[..., Here]) -> None:
    trial.produce(1500)
    trial.delete_records(0, before=10)
    here = archive_here()
    until(lambda: sum(index.positions(trial.settings, trial.topic).values()) == 1500, what="all is archived")
    here.stop()
    before, lost = rows(trial), lost_ranges(trial)
    with engine(trial.settings).begin() as connection:
        connection.execute(delete(archive_files).where(archive_files.c.topic == trial.topic))
        connection.execute(delete(archive_losses).where(archive_losses.c.topic == trial.topic))
    found = sluice_archive(trial, "verify")
    assert found.returncode == 1
    assert f"sluice archive rebuild-index {trial.topic}" in found.stdout
    rebuilt = sluice_archive(trial, "rebuild-index")
    assert (rebuilt.returncode, rebuilt.stdout) == (0, f"{trial.topic}: {len(before)} files are indexed\n")
    assert sluice_archive(trial, "verify").returncode == 0
    assert rows(trial) == before
    assert lost_ranges(trial) == lost == [(0, 0, 10)]


def test_every_fault_is_listed_and_repaired_from_kafka_where_it_has_the_records(
    trial: Trial, archive_here: Callable[..., Here]
) -> None:
    trial.produce(1_200, partition=0)
    here = archive_here(max_lines=300)
    until(lambda: index.positions(trial.settings, trial.topic) == {0: 1_200}, what="all is archived")
    here.stop()
    before, of_index, claims = trial.archived(), rows(trial), trial.claims()
    store = HdfsStore.of(trial.settings)
    sound = store.read(claims.path(0))
    store.write(claims.path(0), sound[:100] + bytes(500) + sound[600:])  # its footer is as it was
    store.delete(claims.path(300))
    store.write(claims.path(900), b"not a Parquet file")
    (found,) = (each for each in verify(trial.settings, trial.topic) if each.partition == 0)
    assert found.problems == (
        f"{claims.path(300)} is gone, with offsets 300 to 599",
        f"{claims.path(900)}: it does not end as a Parquet file does. The archiver never leaves such a file: "
        "restore it from a snapshot, or move it out of the archive (what Kafka still has of its offsets is "
        "then archived again)",
    )
    deep = sluice_archive(trial, "verify", "--deep")
    assert deep.returncode == 1
    assert all(claims.path(first) in deep.stdout for first in (0, 300, 900))
    repaired = sluice_archive(trial, "repair")
    assert (repaired.returncode, repaired.stdout.count("300 lines are archived again")) == (0, 3)
    assert sluice_archive(trial, "verify", "--deep").returncode == 0
    assert trial.archived() == before
    assert [row.days for row in rows(trial)] == [row.days for row in of_index]
    assert sluice_archive(trial, "repair").stdout == f"the archive of {trial.topic} lacks nothing\n"
    kept = [each.name for each in store.list(trial.directory(0)) if each.name.startswith(".damaged-")]
    assert [name[9:29] for name in kept] == ["0" * 20, "0" * 17 + "900"]

    trial.delete_records(0, before=400)
    store.delete(claims.path(300))
    refused = sluice_archive(trial, "repair")
    assert refused.returncode == 1
    assert "offsets 300 to 599: Kafka has offsets 400 to 1199" in refused.stdout


def test_files_are_found_by_day_below_a_cut(trial: Trial, archive_here: Callable[..., Here]) -> None:
    trial.produce(900, partition=0)
    archive_here(max_lines=300)
    until(lambda: index.positions(trial.settings, trial.topic) == {0: 900}, what="all is archived")
    all_files = index.files_for(trial.settings, trial.topic, None, {0: 900})
    assert all_files[-1].next == 900
    of_day = index.files_for(trial.settings, trial.topic, date(2015, 5, 18), {0: 900})
    assert sum(file.days["2015-05-18"] for file in of_day) == 300
    assert index.files_for(trial.settings, trial.topic, date(2015, 5, 20), {0: 900}) == []
    below = index.files_for(trial.settings, trial.topic, None, {0: 1})
    assert [file.first for file in below] == [0]
    assert index.files_for(trial.settings, trial.topic, None, {}) == []


def test_a_topic_made_again_gets_an_archive_of_its_own(
    trial: Trial, archive_here: Callable[..., Here]
) -> None:
    trial.produce(600, partition=0)
    archive_here()
    until(lambda: len(trial.archived()[0]) == 600, what="all is archived")
    old, old_lines = trial.topic_id, trial.archived()[0]
    trial.recreate()
    assert trial.topic_id != old
    told = f"{trial.topic}: replaced"
    until(
        lambda: told in {a.name for a in alerts.open_alerts(engine(trial.settings), "archive")},
        what="it tells",
    )
    trial.produce(700, partition=0)
    until(lambda: len(trial.archived()[0]) == 700, what="the new one is archived")
    shift = position_at(1, 0)
    assert [line[0] - shift for line in trial.archived()[0]] == [line[0] for line in trial.in_kafka()[0]]
    assert trial.ends() == {(old, 0): 600, (trial.topic_id, 0): shift + 700}
    trial.topic_id = old
    assert trial.archived()[0] == old_lines
