"""Several archivers share a topic's partitions, while lines come and members come and go."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from sluice.monitoring.lag.look import look
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsStore
from sluice.transmission.lag import archive_group
from sluice.transmission.topics import Topics
from tests.archive.archive_trial import Trial, ends, until

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


def shares(trial: Trial, **wanted: int) -> None:
    named = {name.replace("_", "-"): count for name, count in wanted.items()}
    until(f"the members have {named}", lambda: owned(trial) == named, 60)


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
        shares(trial, archiver=8)
        members += [trial.process(member=f"archiver-{number}") for number in (2, 3, 4)]
        shares(trial, archiver=2, archiver_2=2, archiver_3=2, archiver_4=2)
        assert trial.stop(members[2]) == 0
        members[3].send_signal(signal.SIGKILL)
        shares(trial, archiver=4, archiver_2=4)
    finally:
        over.set()
        loading.join(60)
    trial.assert_exact()
    ends(trial)
    report = look(trial.settings, trial.topic)
    assert not report.problems
    archiver = {name: behind for _, name, behind in report.by_topic()}["archiver"]
    assert (archiver.records, archiver.seconds) == (0, 0.0)
    assert (archiver.processed or 0.0) > 0
    assert archiver.arriving > 0
    told = [(name, partitions) for _, _, name, partitions, _ in report.by_member()]
    assert [(name, len(partitions)) for name, partitions in told] == [("archiver", 4), ("archiver-2", 4)]
    whys = {each.why for each in report.rebalances}
    assert {"archiver joined", "this member stops"} <= whys
    assert any("archiver-4 left" in why or "a member left" in why for why in whys)
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
