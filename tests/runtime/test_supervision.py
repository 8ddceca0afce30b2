"""The supervisor with real processes: it restarts dead and stuck ones, but not another's."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from sluice.runtime import detached, supervision
from sluice.runtime.supervision import CrashLoop, Superseded, Supervisor
from sluice_lab.waiting import until
from tests.own_time import own_time

SLEEP = ["sleep", "60"]


@pytest.fixture
def run(tmp_path: Path):
    yield tmp_path / "run"
    for file in (tmp_path / "run").glob("*.json"):
        if (record := detached.read(file.stem, tmp_path / "run")) is not None:
            detached.stop(record, 0, run=tmp_path / "run")


def pid(run: Path) -> int:
    record = detached.adopt("job", run)
    return record.pid if record else 0


def kill(run: Path) -> int:
    killed = pid(run)
    os.kill(killed, signal.SIGKILL)
    until(lambda: not detached.adopt("job", run), poll=0.01)
    return killed


def test_healthy_process_is_left_alone(run: Path) -> None:
    supervisor = Supervisor("job", SLEEP, "me", run=run)
    assert supervisor.claim().startswith("STARTED job")
    before = pid(run)
    assert list(supervisor.poll()) == []
    assert pid(run) == before


def test_killed_process_is_restarted_by_the_next_poll_with_the_newest_environment(run: Path) -> None:
    environment = {"MASTER": "old"}
    argv = ["sh", "-c", "echo master=$MASTER; exec sleep 60"]
    supervisor = Supervisor("job", argv, "me", environment=lambda: environment, run=run)
    supervisor.claim()
    environment["MASTER"] = "new"
    killed = kill(run)
    said = list(supervisor.poll())
    assert said[0].startswith(f"DIED job, pid {killed}")
    assert said[-1].startswith("RESTART 1 of job: STARTED job")
    assert pid(run) not in (0, killed)
    assert supervisor.restarted_lately == 1
    until(lambda: "master=new" in supervisor.log.read_text(), poll=0.02)


def test_process_outlives_its_supervisor_and_is_adopted(run: Path) -> None:
    Supervisor("job", SLEEP, "me", run=run).claim()
    before = pid(run)
    successor = Supervisor("job", SLEEP, "me", run=run)
    assert list(successor.poll()) == []
    assert successor.claim().startswith("ADOPTED")
    assert pid(run) == before


def test_former_owner_neither_restarts_nor_stops(run: Path) -> None:
    former = Supervisor("job", SLEEP, "first try", run=run)
    former.claim()
    Supervisor("job", SLEEP, "second try", run=run).claim()
    with pytest.raises(Superseded, match="second try"):
        list(former.poll())
    assert not former.stop()
    assert pid(run)


def test_stopped_process_comes_back_after_down_and_up(run: Path) -> None:
    supervisor = Supervisor("job", SLEEP, "me", run=run)
    supervisor.claim()
    record = detached.adopt("job", run)
    assert record
    detached.stop(record, 1, run=run)  # as `sluice down` does: the record goes too
    assert [line.split(",")[0] for line in supervisor.poll()] == ["STARTED job"]
    assert supervisor.restarted_lately == 0  # or each `sluice up` would raise an alert
    assert pid(run)


@pytest.mark.slow
def test_restarts_slow_down_and_end_as_a_crash_loop(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    own_time(monkeypatch, supervision, monotonic=lambda: now[0])
    supervisor = Supervisor("job", ["sh", "-c", "echo no broker; exit 1"], "me", run=run)
    supervisor.claim()
    started = []

    def watch() -> None:
        while now[0] < 1200:
            until(lambda: not detached.alive(detached.read("job", run)), poll=0.01)
            if any(line.startswith("RESTART") for line in supervisor.poll()):
                started.append(now[0] - 1000)
            now[0] += 1

    with pytest.raises(CrashLoop, match=r"died 9 times within 60 s(.|\n)*no broker"):
        watch()
    # There is one poll a second: a death is seen one second after the start, then the delay begins.
    assert started == [0, 2, 5, 10, 19, 36, 67, 98]


def test_death_after_a_long_life_is_no_crash_loop(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "STEADY", 0.0)
    monkeypatch.setattr(supervision, "EARLY_DEATHS", 0)
    supervisor = Supervisor("job", SLEEP, "me", run=run)
    supervisor.claim()
    for n in range(1, 4):
        kill(run)
        assert list(supervisor.poll())[-1].startswith(f"RESTART {n} of job")


@pytest.mark.slow
def test_standing_still_is_a_reason_to_restart_only_while_lag_grows(run: Path) -> None:
    position, lag = [{"logs": {"0": 7}}], [5]
    supervisor = Supervisor(
        "job", SLEEP, "me", position=lambda: position[0], lag=lambda: lag[0], stuck_after=0.2, run=run
    )
    supervisor.claim()
    before = pid(run)
    assert list(supervisor.poll()) == []
    time.sleep(0.25)
    assert list(supervisor.poll()) == []  # the first look at the lag
    time.sleep(0.1)
    assert list(supervisor.poll()) == []  # as large as before
    position[0] = {"logs": {"0": 8}}
    assert list(supervisor.poll()) == []  # it made progress
    time.sleep(0.25)
    assert list(supervisor.poll()) == []
    lag[0] = 6
    time.sleep(0.1)
    said = list(supervisor.poll())
    assert said[0].startswith(f"STUCK job, pid {before}")
    assert pid(run) not in (0, before)
    assert list(supervisor.poll()) == []  # a new process gets some time


@pytest.mark.slow
def test_the_first_work_after_a_long_rest_is_no_reason_to_restart(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lag, now = [0], [1_000.0]
    supervisor = Supervisor(
        "job", SLEEP, "me", position=lambda: "done", lag=lambda: lag[0], stuck_after=300, run=run
    )
    supervisor.claim()
    own_time(monkeypatch, supervision, monotonic=lambda: now[0])

    def polled_for(seconds: float) -> list[str]:
        said = []
        for _ in range(round(seconds / 5)):
            now[0] += 5
            said += supervisor.poll()
            lag[0] += lag[0] > 0  # no work comes before there is some
        return said

    assert polled_for(1_000) == []
    lag[0] = 1
    assert polled_for(250) == []
    assert polled_for(200)[0].startswith("STUCK job")


def test_restart_on_demand_says_why(run: Path) -> None:
    supervisor = Supervisor("job", SLEEP, "me", run=run)
    supervisor.claim()
    before = pid(run)
    said = list(supervisor.restart("SLUICE_SPARK__MASTER changed"))
    assert said[0].endswith("SLUICE_SPARK__MASTER changed")
    assert pid(run) not in (0, before)
