"""Each line of the topic is in the archive once, whatever happens to the archiver.

The fence between two archivers is in `publisher` and `claim`.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from kafka import KafkaAdminClient
from kafka.coordinator.base import BaseCoordinator

from sluice.archive import index, membership, session
from sluice.transmission.lag import archive_group, group_lag
from sluice.transmission.topics import Topics
from sluice_lab.waiting import until
from tests.archive.archive_trial import Here, Trial

pytestmark = pytest.mark.stack


def group_state(trial: Trial) -> str:
    """The state of the archiver's group, as the broker has it."""
    group = archive_group(trial.topic)
    with closing(KafkaAdminClient(bootstrap_servers=trial.settings.kafka.bootstrap)) as admin:
        return str(admin.describe_groups([group])[group]["group_state"])


def test_lines_are_archived_and_the_group_is_told(trial: Trial, archive_here: Callable[..., Here]) -> None:
    trial.produce(3000)
    here = archive_here()
    trial.assert_exact()
    until(lambda: sum(index.positions(trial.settings, trial.topic).values()) == 3000, what="all is indexed")
    until(lambda: here.partition(0).get("lag") == 0 and here.partition(1).get("lag") == 0, what="it says so")
    produced = 3000

    def told() -> bool:
        """A group hears nothing while it rebalances, so more lines come then."""
        nonlocal produced
        until(lambda: group_state(trial) == "Stable", what="the group's rebalance is over")
        produced += 300
        trial.produce(300)
        until(
            lambda: sum(index.positions(trial.settings, trial.topic).values()) == produced,
            what="all is there",
        )
        lags = group_lag(trial.settings, archive_group(trial.topic), trial.topic)
        return {number: lag.records for number, lag in lags.items()} == {0: 0, 1: 0}

    until(told, what="the group is told")
    here.stop()
    lags = group_lag(trial.settings, archive_group(trial.topic), trial.topic)
    assert sum(lag.committed or 0 for lag in lags.values()) == produced


def test_a_stop_flushes_what_is_buffered(trial: Trial, archive_here: Callable[..., Here]) -> None:
    trial.produce(300)
    here = archive_here(max_lines=10_000, max_age_seconds=600)
    until(lambda: sum(here.partition(p).get("buffered", 0) for p in (0, 1)) == 300, what="all is buffered")
    here.stop()
    trial.assert_exact()


def test_a_process_that_slept_through_a_rebalance_loses_the_rename_and_goes_on(trial: Trial) -> None:
    trial.produce(400)
    age = 10.0  # a busy machine sees the lines and stops the sleeper before they are so old
    sleeper = trial.process(max_lines=10_000, max_age_seconds=age)
    until(
        lambda: sum(p["buffered"] for p in trial.partitions(sleeper).values()) == 400, what="it holds lines"
    )
    sleeper.send_signal(signal.SIGSTOP)
    old = time.monotonic() + age
    other = trial.process()
    until(trial.archives_everything, what="the other archived them")
    trial.produce(100)
    time.sleep(max(0.0, old - time.monotonic()))  # the sleeper's lines are old enough for a file then
    sleeper.send_signal(signal.SIGCONT)
    trial.assert_exact()
    until(lambda: "lost the claim" in trial.log(sleeper), what="it noticed")
    trial.produce(500)
    trial.assert_exact()
    assert trial.stop(other) == 0
    assert trial.stop(sleeper) == 0


def test_a_member_whose_heartbeats_stall_joins_again(
    trial: Trial, archive_here: Callable[..., Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    send_heartbeats, stalled = BaseCoordinator._heartbeat_loop, threading.Event()

    async def stall_at_first(coordinator: BaseCoordinator) -> None:
        if stalled.is_set():
            await send_heartbeats(coordinator)
        stalled.set()
        while not coordinator._heartbeat_closed:
            await coordinator._heartbeat_wakeup()

    monkeypatch.setattr(BaseCoordinator, "_heartbeat_loop", stall_at_first)
    monkeypatch.setattr(session, "SESSION_MS", 6_000)
    monkeypatch.setattr(session, "HEARTBEAT_MS", 2_000)
    monkeypatch.setattr(membership, "WATCH_SECONDS", 1.0)
    trial.produce(400)
    archive_here(max_lines=150)
    group = archive_group(trial.topic)
    with Topics(trial.settings) as topics:
        (first,) = until(lambda: topics.members(group), what="it joined")
        trial.assert_exact()
        until(lambda: first not in topics.members(group), what="the group lost it")
        until(lambda: topics.members(group), what="it is back")
    trial.produce(400)
    trial.assert_exact()


def test_gaps_that_kafka_itself_skips_are_no_loss(trial: Trial, archive_here: Callable[..., Here]) -> None:
    trial.produce(600, partition=0, transactions=6)
    archive_here(max_lines=150)
    trial.assert_exact()
    trial.ends()
    skipped = [trial.claims().footer(file).skipped for file in trial.claims().files()]
    assert sum(skipped) >= 5
