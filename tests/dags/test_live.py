"""The running Airflow supervises jobs: it replaces dead ones; they survive its own deaths."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack import entry, supervisord
from sluice.stack.airflow.rest_api import Airflow
from sluice_lab.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.e2e]

JOBS = {"speed_layer": ("speed_layer", "speed_layer"), "archiver": ("archive", "archiver")}
# A task start takes 3-5 s of one core, and a continuous run starts when the scheduler looks next.
RUN_SECONDS = 300.0
START_SECONDS = 300.0  # all four at once: 40-70 s on two idle cores
REPAIRED_SECONDS = 10.0


def pid(settings: Settings, job: str) -> int:
    record = detached.read(job, settings.home / "run")
    return record.pid if record and detached.alive(record) else 0


@pytest.fixture
def airflow(stack: Settings) -> Iterator[Airflow]:
    """Both jobs running, deferred to the triggerer."""
    with Airflow(stack) as airflow:
        for job, (dag, task) in JOBS.items():
            airflow.unpause(dag)
            until(lambda job=job: pid(stack, job), RUN_SECONDS, f"{job} runs")
            until(lambda dag=dag, task=task: state(airflow, dag, task) == "deferred", RUN_SECONDS, dag)
        yield airflow
        for dag, _ in JOBS.values():
            airflow.unpause(dag)


def state(airflow: Airflow, dag: str, task: str) -> str | None:
    runs = airflow.runs(dag)
    return airflow.task_state(dag, runs[0].id, task) if runs else None


@pytest.mark.parametrize("job", JOBS)
def test_killed_job_is_replaced_within_ten_seconds(stack: Settings, airflow: Airflow, job: str) -> None:
    dag, task = JOBS[job]
    killed = pid(stack, job)
    os.kill(killed, signal.SIGKILL)
    until(lambda: pid(stack, job) not in (0, killed), REPAIRED_SECONDS, f"a new {job}")
    run = airflow.runs(dag)[0].id
    told = {f"DIED {job}, pid {killed}", f"STARTED {job}, pid {pid(stack, job)}"}
    until(lambda: all(each in airflow.task_log(dag, run, task) for each in told), what="the task's log")


def test_jobs_survive_the_deaths_of_airflow_and_are_watched_again(stack: Settings, airflow: Airflow) -> None:
    before = {job: pid(stack, job) for job in JOBS}
    components = {name: each.pid for name, each in supervisord.programs(stack).items() if "airflow" in name}
    assert len(components) == 4
    for number in components.values():
        os.kill(number, signal.SIGKILL)

    def back(name: str) -> bool:
        return supervisord.programs(stack)[name].pid not in (0, components[name]) and not entry.check(
            stack, name
        )

    for name in components:
        until(lambda name=name: back(name), START_SECONDS, f"{name} is back")
    assert {job: pid(stack, job) for job in JOBS} == before
    os.kill(before["archiver"], signal.SIGKILL)
    # The new triggerer takes the triggers over when the killed one's last heartbeat is 15 s old.
    until(lambda: pid(stack, "archiver") not in (0, before["archiver"]), what="a new archiver")
    assert pid(stack, "speed_layer") == before["speed_layer"]


def test_paused_and_failed_stops_the_job_until_it_is_unpaused(stack: Settings, airflow: Airflow) -> None:
    dag, task = JOBS["archiver"]
    airflow.pause(dag)
    airflow.fail(dag, airflow.runs(dag)[0].id, task)
    until(lambda: not pid(stack, "archiver"), what="the archiver stops")
    time.sleep(5)
    assert not pid(stack, "archiver")
    airflow.unpause(dag)
    until(lambda: pid(stack, "archiver"), RUN_SECONDS, "the archiver runs again")


def test_airflow_imported_everything(airflow: Airflow) -> None:
    assert airflow.import_errors() == {}
