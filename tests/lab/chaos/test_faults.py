"""Faults on real processes; what was stopped goes on, however the fault ends."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice_lab.chaos import faults
from sluice_lab.chaos.draws import DrawnFault, FaultKind
from sluice_lab.chaos.parts import ChaosPart, PartSort
from sluice_lab.waiting import until

PART = ChaosPart("archiver", PartSort.JOB)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(instance="dev", home=tmp_path)


@pytest.fixture
def job(settings: Settings) -> Iterator[psutil.Process]:
    run = settings.home / "run"
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    record = detached.start(PART.name, argv, run=run, log=settings.home / "log")
    yield psutil.Process(record.pid)
    detached.stop(record, 0, run=run)


def happen(
    settings: Settings, kind: FaultKind, sleep: Callable[[float], None] = time.sleep
) -> faults.DoneFault:
    fault = DrawnFault(kind, PART.name, 0.1, 0, overlaps=False, chance=1)
    return faults.carry_out(settings, fault, {PART.name: PART}, sleep)


def stands_still(process: psutil.Process) -> bool:
    return process.status() == psutil.STATUS_STOPPED


@pytest.mark.slow
def test_a_kill(settings: Settings, job: psutil.Process) -> None:
    began = time.time()
    done = happen(settings, FaultKind.KILL)
    assert not detached.alive(detached.read(PART.name, settings.home / "run"))
    assert done.killed == {job.pid}
    assert began <= done.ended <= time.time()


@pytest.mark.slow
def test_a_stop_ends(settings: Settings, job: psutil.Process) -> None:
    seen = []
    done = happen(settings, FaultKind.STOP, lambda _: seen.append(until(lambda: stands_still(job), 10)))
    assert seen == [True]
    assert not stands_still(job)
    assert done.killed == frozenset()


@pytest.mark.slow
@pytest.mark.parametrize("how", [KeyboardInterrupt, SystemExit])
def test_what_was_stopped_goes_on_if_the_run_is_interrupted(
    settings: Settings, job: psutil.Process, how: type[BaseException]
) -> None:
    def interrupted(_: float) -> None:
        until(lambda: stands_still(job), 10)
        raise how

    with pytest.raises(how):
        happen(settings, FaultKind.STOP, interrupted)
    assert not stands_still(job)


@pytest.mark.slow
def test_a_process_that_ended_while_it_was_stopped_hinders_nothing(job: psutil.Process) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        other = psutil.Process(child.pid)
        with faults.stopped([other, job]):
            child.kill()
            child.wait()
    assert not stands_still(job)


@pytest.mark.slow
def test_a_part_without_a_process_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "START_SECONDS", 0.2)
    with pytest.raises(faults.NothingToHit, match="archiver had no process"):
        happen(settings, FaultKind.KILL)
