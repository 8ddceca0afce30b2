"""The operator and its trigger, run as Airflow runs them, with a real process as the job."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime import detached
from sluice_lab.waiting import SECONDS, until
from tests.loops import run
from tests.plugins.triggers import context, deferred_to, watched

JOB = "import os, time; print('master', os.environ['SLUICE_SPARK__MASTER'], flush=True); time.sleep(600)"


@pytest.fixture
def module(home: Path, connected: Any, monkeypatch: pytest.MonkeyPatch):
    from sluice_airflow import supervised_process

    jobs = home / "root" / "jobs"
    jobs.mkdir(parents=True)
    (jobs / "sleeper.py").write_text(JOB)
    monkeypatch.setenv("SLUICE_ROOT", str(home / "root"))
    supervised_process.get_settings.cache_clear()
    monkeypatch.setattr(supervised_process, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(supervised_process, "_sync", lambda source, wanted: None)  # no database here
    return supervised_process


def execute(module: Any, **where: Any) -> Any:
    """Run the operator until it defers; returns its trigger, rebuilt from its serialized form."""
    path, kwargs = deferred_to(module.SupervisedJob(task_id="t", job="sleeper"), **where)
    assert path == "sluice_airflow.supervised_process.JobTrigger"
    return module.JobTrigger(**kwargs)


def running() -> int:
    record = detached.adopt("sleeper")
    return record.pid if record else 0


def test_job_is_started_adopted_by_the_next_try_and_restarted_after_a_kill(module: Any, home: Path) -> None:
    execute(module)
    first = running()
    trigger = execute(module, try_number=2)
    assert running() == first
    log = home / "logs" / "sleeper.log"

    async def script(task: asyncio.Task) -> None:
        await asyncio.to_thread(until, lambda: "master local[2]" in log.read_text())
        assert running() == first
        os.kill(first, signal.SIGKILL)
        await asyncio.to_thread(until, lambda: running() not in (0, first))
        assert not task.done()

    assert run(watched(trigger, script)) is None
    assert running() not in (0, first)  # and it outlives the trigger
    until(lambda: log.read_text().count("master local[2]") == 2)


def test_trigger_of_a_former_try_fires_and_its_on_kill_stops_nothing(module: Any) -> None:
    former = execute(module)
    execute(module, run_id="r2")

    async def script(task: asyncio.Task) -> None:
        await asyncio.wait([task], timeout=SECONDS)

    event = run(watched(former, script))
    assert event
    assert event["status"] == "superseded"
    run(former.on_kill())
    assert running()


def test_on_kill_of_the_owner_stops_the_job(module: Any) -> None:
    trigger = execute(module)
    run(trigger.on_kill())
    assert running() == 0


@pytest.mark.slow
def test_on_kill_waits_for_a_restart_and_the_job_stays_stopped(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = execute(module)
    begun, go_on = threading.Event(), threading.Event()

    def restart(self: Any, why: str) -> list[str]:
        """Its first half is over: the job is stopped."""
        self.stop()
        begun.set()
        assert go_on.wait(60)
        return [self.claim()]

    monkeypatch.setattr(module.Supervisor, "restart", restart)
    monkeypatch.setattr(module, "REFRESH_POLLS", 1)

    async def changed(self: Any) -> str:
        return "something was changed"

    monkeypatch.setattr(module.JobTrigger, "_reconnected", changed)

    async def killed() -> None:
        task = asyncio.ensure_future(anext(trigger.run()))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        stops = asyncio.ensure_future(trigger.on_kill())
        await asyncio.sleep(0.2)
        go_on.set()
        await stops

    run(killed())
    assert running() == 0


@pytest.mark.slow
def test_changed_connection_restarts_the_job_with_it(
    module: Any, home: Path, connected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFRESH_POLLS", 2)
    trigger = execute(module)
    before = running()

    async def script(task: asyncio.Task) -> None:
        await asyncio.to_thread(until, lambda: trigger._environment)  # what it was before
        connected("spark_default", conn_type="spark", host="spark://h:7077")
        log = home / "logs" / "sleeper.log"
        await asyncio.to_thread(until, lambda: "master spark://h:7077" in log.read_text())

    run(watched(trigger, script))
    assert running() not in (0, before)


def test_connections_that_cannot_be_read_do_not_end_the_watch(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFRESH_POLLS", 1)
    trigger = execute(module)
    before = running()
    read, asked = module.aenvironment, list[None]()

    async def away_after_the_first() -> dict[str, str]:
        asked.append(None)
        if len(asked) > 1:
            raise ConnectionError("Airflow's database restarts")
        return await read()

    monkeypatch.setattr(module, "aenvironment", away_after_the_first)

    async def script(task: asyncio.Task) -> None:
        await asyncio.to_thread(until, lambda: len(asked) >= 3 or task.done())

    assert run(watched(trigger, script)) is None
    assert len(asked) >= 3
    assert running() == before


@pytest.mark.slow
def test_crash_loop_fails_the_task_with_the_end_of_the_log(
    module: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowException

    from sluice.runtime import supervision

    monkeypatch.setattr(supervision, "LONGEST_DELAY", 0.0)
    (home / "root" / "jobs" / "sleeper.py").write_text("raise SystemExit('no broker at hand')")
    trigger = execute(module)

    async def script(task: asyncio.Task) -> None:
        await asyncio.wait([task], timeout=SECONDS)

    event = run(watched(trigger, script))
    assert event
    assert event["status"] == "crash loop"
    with pytest.raises(AirflowException, match="no broker at hand"):
        module.SupervisedJob(task_id="t", job="sleeper").lost(context(), event)


@pytest.mark.slow
def test_an_archive_that_falls_behind_gets_a_second_archiver_and_on_kill_stops_both(
    module: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice.archive import scaling
    from sluice.runtime import crew

    (home / "root" / "jobs" / "archiver.py").write_text(JOB)
    monkeypatch.setenv("SLUICE_ARCHIVE__MEMBERS", "2")
    module.get_settings.cache_clear()
    monkeypatch.setattr(crew, "DECIDE_SECONDS", 0.0)
    monkeypatch.setattr(scaling, "GROW_AFTER_SECONDS", 0.0)
    _, kwargs = deferred_to(module.SupervisedJob(task_id="t", job="archiver"))
    trigger = module.JobTrigger(**kwargs)
    folder = home / "run"
    partitions = {str(number): {"position": 5} for number in range(4)}
    topics = {"logs": {"state": "archiving", "partitions": partitions}}
    (folder / "archiver.progress.json").write_text(json.dumps({"updated_at": time.time(), "topics": topics}))
    look = {"updated_at": time.time(), "lag": {"logs": {"archive": {"records": 9, "seconds": 500.0}}}}
    (folder / "watch.progress.json").write_text(json.dumps(look))

    async def script(task: asyncio.Task) -> None:
        await asyncio.to_thread(until, lambda: detached.adopt("archiver-2") is not None)
        assert not task.done()

    run(watched(trigger, script))
    second = detached.read("archiver-2")
    assert second
    assert second.argv[-2:] == ["--member", "archiver-2"]
    run(trigger.on_kill())
    assert detached.adopt("archiver") is None
    assert detached.adopt("archiver-2") is None


@pytest.mark.parametrize(
    ("said", "alert"),
    [
        ("unknown", {"archiver-2: unknown": "archiver-2 may run or not: why"}),
        ("stopped", {"archiver-2: stopped": "archiver-2 does not run: why"}),
        ("starts", {}),
    ],
)
def test_a_member_elsewhere_that_nobody_sees_run_is_an_alert(
    module: Any, said: Any, alert: dict[str, str]
) -> None:
    from sluice_hosts.jobs import job_state
    from sluice_hosts.jobs.hosting import ON_HOSTS

    settings = module.get_settings()
    own = detached.start("archiver-2", ["sleep", "600"], run=settings.home / "run")
    try:
        job_state.write(
            settings, "archiver-2", job_state.FarState("h1", job_state.JobState(said), own.pid, why="why")
        )
        assert ON_HOSTS.alerts(settings, "archiver") == alert
        assert ON_HOSTS.alerts(settings, "speed_layer") == {}
    finally:
        detached.stop(own, 0.0, run=settings.home / "run")
