"""The DAG `archive` starts and stops real archivers as a backlog grows and falls, and no line is lost."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import signal
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluice.archive import scaling
from sluice.monitoring.lag.cost import costs
from sluice.monitoring.lag.measurement import lag_report
from sluice.runtime import crew, detached
from sluice.runtime.settings import ROOT, Settings, get_settings
from sluice.storage.postgres import engine
from sluice.storage.tables.rebalances import KEPT, last
from sluice.transmission.lag import archive_group
from sluice.transmission.topics import Topics
from sluice_lab.bench.databases import database
from sluice_lab.waiting import until
from tests.archive.archive_trial import Trial, trial_of
from tests.loops import run
from tests.plugins.archivers import LINES, Load, Look, archived_numbers, told
from tests.plugins.triggers import deferred_to, watched
from tests.repeated import repeated

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(1800)]

PARTITIONS, MOST = 8, 4
MEMBERS = ["archiver", "archiver-2", "archiver-3", "archiver-4"]
PATIENCE = 400.0
#: Scaling as it is, but sooner: what is a minute there is about ten seconds here.
SOONER = {
    (scaling, "BEHIND_SECONDS"): 8.0,
    (scaling, "GROW_AFTER_SECONDS"): 1.5,
    (scaling, "CLOSE_SECONDS"): 3.0,
    (scaling, "SHRINK_AFTER_SECONDS"): 2.0,
    (scaling, "APART_SECONDS"): 4.0,
    (crew, "DECIDE_SECONDS"): 0.5,
}
FAR, CLOSE = 8.0, 4.0
#: From when the lag lasts until the trigger says that it acted on it: it may stop a member before it says so.
SAYS_SECONDS = 30.0


@pytest.fixture
def instance(stack: Settings, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """An instance beside the tests' own: the same daemons, but a directory and a database of its own."""
    (home / "secrets").symlink_to(stack.home / "secrets")
    with database(stack, f"archivers_{secrets.token_hex(4)}") as own:
        monkeypatch.setenv("SLUICE_INSTANCE", stack.instance)
        monkeypatch.setenv("SLUICE_POSTGRES__DATABASE", own.postgres.database)
        monkeypatch.setenv("SLUICE_ARCHIVE__MEMBERS", f"{MOST}")
        monkeypatch.setenv("SLUICE_ARCHIVE__MAX_AGE_SECONDS", "1")
        for (module, name), seconds in SOONER.items():
            monkeypatch.setattr(module, name, seconds)
        get_settings.cache_clear()
        yield get_settings()


@pytest.fixture
def load(instance: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """A topic, which is the instance's only one, and its load."""
    with trial_of(instance, tmp_path, PARTITIONS) as trial:
        monkeypatch.setattr("sluice.tasks.topics.DEFAULT_TOPIC", trial.topic)
        load = Load(trial)
        yield load
        load.close()


@pytest.fixture
def trigger(load: Load, connected: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The trigger of the task in dags/archive.py, on that topic."""
    from airflow.dag_processing.dagbag import DagBag

    from sluice_airflow import supervised_process

    monkeypatch.setattr(supervised_process, "POLL_SECONDS", 0.3)
    task = DagBag(ROOT / "dags" / "archive.py").dags["archive"].get_task("archiver")
    task.arguments = ["--topic", load.trial.topic]
    trigger = supervised_process.JobTrigger(**deferred_to(task)[1])
    trigger._log = logging.getLogger("trigger of archive")
    return trigger


def owners(trial: Trial) -> set[str]:
    """The members that have partitions, if all partitions are had."""
    with Topics(trial.settings) as topics:
        found = topics.owners(archive_group(trial.topic))
    return set(found.values()) if len(found) == PARTITIONS else set()


def scale(load: Load, settings: Settings) -> None:
    """Lines trickle in, come as a flood, and trickle in again; nothing here starts or stops a member."""
    with repeated(load.look, 0.2):
        with repeated(load.trickle, 0.5):
            until(lambda: load.looks and load.newest.archived, PATIENCE, "the first archiver archives")
        assert load.newest.members == 1
        with repeated(load.flood, 0.2):
            until(lambda: owners(load.trial) == {*MEMBERS}, PATIENCE, lambda: told(load.looks))
        killed = detached.read(MEMBERS[2], settings.home / "run")
        assert killed
        os.kill(killed.pid, signal.SIGKILL)
        with repeated(load.trickle, 0.5):
            until(lambda: load.newest.members == 1, PATIENCE, lambda: told(load.looks))
            until(lambda: owners(load.trial) == {MEMBERS[0]}, PATIENCE, "one member has all partitions")
        until(lambda: load.newest.archived == load.sent, PATIENCE, lambda: told(load.looks))


def steps(said: Sequence[logging.LogRecord]) -> list[tuple[float, int]]:
    """When the trigger said how many members there are now."""
    found = ((each.created, re.search(r"^ONE (?:MORE|LESS), now (\d)", each.getMessage())) for each in said)
    return [(at, int(match[1])) for at, match in found if match]


def assert_because_of_the_lag(looks: Sequence[Look], changes: Sequence[tuple[float, int]]) -> None:
    """They came and went one by one: one came while the archive was far behind, one went while it was not."""
    for (_, before), (at, now) in pairwise([(looks[0].at, 1), *changes]):
        seen = [each.behind for each in looks if at - SAYS_SECONDS < each.at < at and each.behind is not None]
        assert abs(now - before) == 1
        assert max(seen) > FAR if now > before else min(seen) < CLOSE


def assert_once(trial: Trial, records: int) -> None:
    """The archive is whole, and has each line once: none is lost, none is doubled."""
    found = [*trial.verified().values()]
    assert [each.problems for each in found] == [()] * PARTITIONS
    assert (sum(each.records for each in found), sum(each.lines for each in found)) == (
        records,
        records * LINES,
    )
    assert np.array_equal(archived_numbers(trial), np.arange(records * LINES))


def assert_shown(settings: Settings, topic: str) -> None:
    """What `sluice lag` shows once the load is over and one member is left."""
    report = lag_report(settings, topic)
    assert not report.problems
    archiver = {name: behind for _, name, behind in report.by_topic()}["archiver"]
    assert (archiver.records, archiver.seconds) == (0, 0.0)
    assert archiver.arriving > 0
    has = {name: set(partitions) for _, _, name, partitions, _ in report.by_member()}
    assert has == {MEMBERS[0]: {*range(PARTITIONS)}}
    with engine(settings).connect() as connection:
        shown = costs(last(connection, topic, KEPT), KEPT)
    whys = {each.why for each in shown}
    assert {"archiver joined", "this member stops"} <= whys
    others = ("archiver-2", "archiver-3", "archiver-4")  # two may come or go in one rebalance
    for step in ("joined", "left"):
        assert any(f"{member} {step}" in why for member in others for why in whys), whys
    stood = [each.stood_still for each in shown if each.stood_still is not None]
    assert 0 < max(stood) < 60


def assert_waits(trial: Trial) -> None:
    """What `sluice lag` shows of lines that nobody archives."""
    assert {each.member for each in lag_report(trial.settings, trial.topic).partitions} == {None}
    trial.produce(50)
    behind = {name: one for _, name, one in lag_report(trial.settings, trial.topic).by_topic()}["archiver"]
    assert behind.records == 50
    assert behind.seconds is not None
    assert behind.catch_up is None


def test_a_backlog_starts_archivers_and_its_end_stops_them(
    instance: Settings,
    load: Load,
    trigger: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(task: asyncio.Task[Any]) -> None:
        await asyncio.to_thread(scale, load, instance)
        assert not task.done()

    run(watched(trigger, script))
    print(told(load.looks))
    changes = steps(caplog.records)
    assert max(number for _, number in changes) == MOST
    assert changes[-1][1] == 1
    assert_because_of_the_lag(load.looks, changes)
    assert any(re.match(r"RESTART \d of archiver-3: STARTED", each.getMessage()) for each in caplog.records)
    assert_shown(instance, load.trial.topic)
    run(trigger.on_kill())
    assert not [name for name in MEMBERS if detached.alive(detached.read(name))]
    assert_once(load.trial, load.sent)
    assert_waits(load.trial)
