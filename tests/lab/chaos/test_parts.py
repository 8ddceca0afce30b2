"""Which parts there are, which faults can happen to each, and what is a part's own family of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack.catalogue import DAEMONS
from sluice_lab.chaos import parts
from sluice_lab.chaos.draws import FaultKind
from sluice_lab.chaos.parts import ChaosPart, PartSort
from sluice_lab.waiting import until

CHILDREN = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(instance="dev", home=tmp_path)


def test_all_daemons_the_watch_and_the_jobs_are_parts(settings: Settings) -> None:
    names = [part.name for part in parts.parts_of(settings)]
    assert set(names) == {*DAEMONS, "watch", "speed_layer", "archiver"}
    assert len(names) == len(set(names))


def test_only_stores_lose_their_power_and_only_what_listens_is_cut_off(settings: Settings) -> None:
    known = [*parts.parts_of(settings), ChaosPart("flume-web1", PartSort.AGENT)]
    found = parts.pairs(settings, known, FaultKind)
    assert found[FaultKind.KILL] == found[FaultKind.STOP] == [part.name for part in known]
    assert {"kafka", "hbase", "postgres"} <= set(found[FaultKind.POWER_CUT])
    assert not {"watch", "speed_layer", "flume-web1"} & set(found[FaultKind.POWER_CUT])
    assert "kafka" in found[FaultKind.PARTITION]
    assert not {"watch", "speed_layer", "airflow-scheduler"} & set(found[FaultKind.PARTITION])
    assert parts.ports(settings, "kafka") == [settings.port("kafka"), settings.port("kafka_controller")]


@pytest.mark.slow
def test_a_part_of_an_instance_that_is_down_has_no_process_and_does_not_work(settings: Settings) -> None:
    known = parts.parts_of(settings)
    assert [parts.process(settings, part) for part in known] == [None] * len(known)
    assert {health.problem for health in parts.look(settings, known).values()} == {"it does not run"}


@pytest.mark.slow
def test_a_job_works_while_it_says_so(settings: Settings) -> None:
    run = settings.home / "run"
    record = detached.start("archiver", [sys.executable, "-c", "import time; time.sleep(60)"], run=run,
                            log=settings.home / "log")  # fmt: skip
    try:
        part = ChaosPart("archiver", PartSort.JOB)
        assert parts.process(settings, part) == psutil.Process(record.pid)
        assert parts.look(settings, [part])["archiver"].problem == "it is silent"
    finally:
        detached.stop(record, 0, run=run)


@pytest.mark.slow
def test_jobs_that_a_process_started_are_no_part_of_it(settings: Settings) -> None:
    run = settings.home / "run"
    with subprocess.Popen([sys.executable, "-c", CHILDREN]) as child:
        try:
            root = psutil.Process(child.pid)
            until(lambda: len(parts.family(settings, root)) == 2, 20)
            job = detached.start("job", [sys.executable, "-c", "import time; time.sleep(60)"], run=run,
                                 log=settings.home / "log")  # fmt: skip
            pids = {each.pid for each in parts.family(settings, psutil.Process(os.getpid()))}
            assert root.pid in pids
            assert job.pid not in pids
            detached.stop(job, 0, run=run)
        finally:
            for each in parts.family(settings, psutil.Process(child.pid)):
                each.kill()
