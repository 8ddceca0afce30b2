"""Several archivers share a topic's partitions, while lines come and members come and go."""

from __future__ import annotations

import secrets
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from sluice.archive.rebalances import DIED
from sluice.monitoring.lag.cost import costs
from sluice.monitoring.lag.look import look
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsStore
from sluice.storage.postgres import engine
from sluice.storage.rebalances import KEPT, Rebalance, last
from sluice.transmission.lag import archive_group
from sluice.transmission.topics import Topics
from tests.archive.archive_trial import Trial, ends
from tests.waiting import until

pytestmark = pytest.mark.stack

PARTITIONS = 8


@pytest.fixture
def trial(stack: Settings, tmp_path: Path) -> Iterator[Trial]:
    trial = Trial(stack, f"h4_{secrets.token_hex(5)}", tmp_path, partitions_made=PARTITIONS)
    yield trial
    for process in trial.processes:
        if process.poll() is None:
            process.kill()
            process.wait()
    admin = KafkaAdminClient(bootstrap_servers=stack.kafka.bootstrap)
    admin.delete_topics([trial.topic])
    admin.close()
    HdfsStore.of(stack).delete(f"{stack.hdfs.raw}/{trial.topic}", recursive=True)


def owned(trial: Trial) -> dict[str, int]:
    """How many partitions each member has, as the broker says."""
    with Topics(trial.settings) as topics:
        owners = list(topics.owners(archive_group(trial.topic)).values())
    return {member: owners.count(member) for member in sorted(set(owners))}


def share(trial: Trial, *members: str) -> None:
    """Wait until these have all partitions, and none of them has few. Loads decide, so numbers may differ."""

    def so() -> bool:
        found = owned(trial)
        enough = min(found.values(), default=0) >= PARTITIONS // len(members) // 2
        return enough and found.keys() == set(members) and sum(found.values()) == PARTITIONS

    until(so, what=f"{members} have all partitions")


def reads_all(trial: Trial) -> bool:
    """Whether the members say that they read all partitions. The broker knows their owners sooner."""
    found = [trial.partitions(process) for process in trial.processes]
    positions = [each["position"] for partitions in found for each in partitions.values()]
    return all(found) and len(positions) == PARTITIONS and None not in positions


def written(trial: Trial) -> list[Rebalance]:
    """What the members wrote of rebalances, the newest first."""
    with engine(trial.settings).connect() as connection:
        return last(connection, trial.topic, KEPT)


def gains(trial: Trial) -> list[Rebalance]:
    """A row for each partition that was gained and read."""
    return [row for row in written(trial) if row.gained and row.seconds is not None]


def test_an_archiver_that_was_killed_and_is_back_says_how_long_its_partitions_stood_still(
    trial: Trial,
) -> None:
    trial.produce(50)
    killed = trial.process()
    until(lambda: len(gains(trial)) == PARTITIONS, what="it reads its partitions")
    until(lambda: reads_all(trial), what="its heartbeat says so")
    killed.kill()
    killed.wait()
    shutil.copy(trial.scratch / "progress-0.json", trial.scratch / "progress-1.json")
    trial.process()
    until(lambda: len(gains(trial)) >= 2 * PARTITIONS, what="the next process reads them")
    (died,) = until(
        lambda: [row for row in written(trial) if row.why == DIED], what="it says when that one died"
    )
    assert died.lost == tuple(range(PARTITIONS))
    shown = costs(written(trial), KEPT)
    stood_still = {at: seconds for each in reversed(shown) for at, seconds in each.by_partition.items()}
    for gain in gains(trial)[:PARTITIONS]:
        outage = (gain.at - died.at).total_seconds() + (gain.seconds or 0.0)
        assert stood_still[gain.gained[0]] == pytest.approx(outage)


def test_one_member_becomes_four_and_two_again_and_each_line_is_archived_once(trial: Trial) -> None:
    over = threading.Event()

    def load() -> None:
        while not over.is_set():
            trial.produce(400)
            over.wait(0.2)

    loading = threading.Thread(target=load)
    loading.start()
    try:
        members = [trial.process(max_age_seconds=1.0)]
        share(trial, "archiver")
        members += [trial.process(member=f"archiver-{number}") for number in (2, 3, 4)]
        share(trial, "archiver", "archiver-2", "archiver-3", "archiver-4")
        until(lambda: reads_all(trial), what="each reads its partitions")
        assert trial.stop(members[2]) == 0
        members[3].send_signal(signal.SIGKILL)
        share(trial, "archiver", "archiver-2")
    finally:
        over.set()
        loading.join(60)
    trial.assert_exact()
    ends(trial)
    report = look(trial.settings, trial.topic)
    assert not report.problems
    archiver = {name: behind for _, name, behind in report.by_topic()}["archiver"]
    assert (archiver.records, archiver.seconds) == (0, 0.0)
    assert archiver.arriving > 0
    told = {name: set(partitions) for _, _, name, partitions, _ in report.by_member()}
    assert told.keys() == {"archiver", "archiver-2"}
    assert told["archiver"] ^ told["archiver-2"] == set(range(PARTITIONS))
    whys = {each.why for each in report.rebalances}
    assert {"archiver joined", "this member stops"} <= whys
    assert any("archiver-4 left" in why or "a member left" in why for why in whys), whys
    stood = [each.stood_still for each in report.rebalances if each.stood_still is not None]
    assert stood
    assert max(stood) < 60
    for member in members[:2]:
        assert trial.stop(member) == 0
    waiting = look(trial.settings, trial.topic)
    assert {each.member for each in waiting.partitions} == {None}
    trial.produce(50)
    behind = {name: one for _, name, one in look(trial.settings, trial.topic).by_topic()}["archiver"]
    assert behind.records == 50
    assert behind.seconds is not None
    assert behind.catch_up is None
