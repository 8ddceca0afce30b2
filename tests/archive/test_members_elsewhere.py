"""An archiver moves to another host and back while lines come: each is archived once, whoever is killed."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.collection.agent import LOCAL
from sluice.monitoring.lag.cost import costs
from sluice.runtime.settings import Settings
from sluice.runtime.supervision import Supervisor
from sluice.stack.environment import environment
from sluice.storage.postgres import engine
from sluice.storage.tables.rebalances import KEPT, last
from sluice_hosts import placed
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.jobs import moving, places
from sluice_lab.waiting import until
from tests.archive.archive_trial import Trial, trial_of
from tests.hosts.one_host import with_jobs
from tests.repeated import repeated

pytestmark = [pytest.mark.stack, pytest.mark.long]

MEMBER, UNIT = "archiver", "archiver:1"
#: Who is killed, and where it is then, on each move: the one that stops or the one that starts.
KILLED = (
    ("h1", "here", "archive_before_rename"),
    (LOCAL, "here", "archive_after_rename"),
    ("h1", "there", "archive_before_rename"),
    (LOCAL, "there", "archive_after_rename"),
)


@pytest.fixture
def settings(stack: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The stack's, with a home of the test's own."""
    own = {
        "SLUICE_HOME": str(tmp_path),
        "SLUICE_POSTGRES__PASSWORD": stack.postgres.password,
        "SLUICE_KAFKA__IDENTITY_KEY": stack.kafka.identity_key,
        "SLUICE_ARCHIVE__MAX_LINES": "500",
        "SLUICE_ARCHIVE__MAX_AGE_SECONDS": "1.0",
        "SLUICE_EXTERNAL": '["kafka"]',  # it is the stack's, and knows no user of this test's host
        "SLUICE_FAULTS": str(tmp_path / "here"),
    }
    for name, value in (environment(stack) | own).items():
        monkeypatch.setenv(name, value)
    return Settings()


@pytest.fixture
def machine(settings: Settings, tmp_path: Path) -> Iterator[EmulatedHost]:
    """h1, enrolled, which may have jobs; they die at the points that are named in the folder `there`."""
    with with_jobs(settings, tmp_path / "h1", tmp_path / "there") as made:
        yield made


@pytest.fixture
def trial(settings: Settings, tmp_path: Path) -> Iterator[Trial]:
    for who in ("here", "there"):
        (tmp_path / who).mkdir()
    with trial_of(settings, tmp_path) as trial:
        yield trial


def archives_more(trial: Trial) -> None:
    files = trial.claims().files
    before = len(files())
    until(lambda: len(files()) > before, what="lines are archived")


def test_each_line_is_archived_once_whoever_is_killed_while_the_archiver_moves(
    settings: Settings, machine: EmulatedHost, trial: Trial
) -> None:
    def command() -> list[str]:
        host = places.belongs_on(settings, MEMBER)
        return places.command(settings, MEMBER, host, ["--topic", trial.topic])

    supervisor = Supervisor(MEMBER, command, "me", run=settings.home / "run")
    supervisor.claim()
    try:
        with repeated(lambda: list(supervisor.poll()), 0.05):
            with repeated(lambda: trial.produce(100), 0.2):
                archives_more(trial)
                for host in ("h1", LOCAL):
                    moving.move(settings, UNIT, host, print)
                    archives_more(trial)
                with engine(settings).connect() as connection:
                    stood = [each.stood_still for each in costs(last(connection, trial.topic, KEPT), KEPT)]
                print("seconds that partitions stood still:", *(f"{each:.1f}" for each in stood if each))
                for host, who, point in KILLED:
                    fault = trial.scratch / who / point
                    placed.update(settings, {UNIT: host})  # as a mover does that is killed then
                    fault.touch()
                    until(functools.partial(gone, fault), what=f"one dies at {point}")
                    until(
                        functools.partial(moving.arrived, settings, MEMBER, host), what=f"it runs on {host}"
                    )
                    archives_more(trial)
            trial.assert_exact()  # before it is told to stop: it archives what it holds then, and no more
    finally:
        supervisor.stop()
    assert not [each for each in machine.processes() if "jobs/archiver.py" in " ".join(each.cmdline())]
    trial.assert_exact()
    trial.ends()


def gone(path: Path) -> bool:
    return not path.exists()
