"""An archiver moves to another host and back while lines come: each is archived once, whoever is killed."""

from __future__ import annotations

import functools
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from sluice.collection import enrolment, hosts, placed
from sluice.collection.emulated.host import EmulatedHost
from sluice.collection.hosts import LOCAL
from sluice.elsewhere import moving, places
from sluice.monitoring.lag.cost import costs
from sluice.runtime.settings import Settings
from sluice.runtime.supervision import Supervisor
from sluice.stack.environment import environment
from sluice.storage.hdfs import HdfsStore
from sluice.storage.postgres import engine
from sluice.storage.rebalances import KEPT, last
from tests.archive.archive_trial import Trial, ends
from tests.collection.one_host import emulated
from tests.repeated import repeated
from tests.waiting import until

pytestmark = pytest.mark.stack

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
    with emulated(settings, tmp_path / "h1") as made:
        path = settings.home / hosts.FILE
        path.write_text(path.read_text().replace("ssh:", f"roles: [jobs], release: {settings.root}, ssh:"))
        enrolment.enrol(settings, hosts.load(settings)["h1"], made.fingerprint())
        faults = tmp_path / "there"
        made.program("sh", f'SLUICE_FAULTS={faults}; export SLUICE_FAULTS; exec /bin/sh "$@"')
        yield made


@pytest.fixture
def trial(settings: Settings, tmp_path: Path) -> Iterator[Trial]:
    for who in ("here", "there"):
        (tmp_path / who).mkdir()
    trial = Trial(settings, f"moves_{secrets.token_hex(5)}", tmp_path)
    yield trial
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
    admin.delete_topics([trial.topic])
    admin.close()
    HdfsStore.of(settings).delete(f"{settings.hdfs.raw}/{trial.topic}", recursive=True)


@contextmanager
def lines(trial: Trial) -> Iterator[None]:
    """They come all the time."""
    over = threading.Event()

    def load() -> None:
        while not over.wait(0.2):
            trial.produce(100)

    loading = threading.Thread(target=load)
    loading.start()
    try:
        yield
    finally:
        over.set()
        loading.join()


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
        with repeated(lambda: list(supervisor.poll()), 0.05), lines(trial):
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
                until(functools.partial(moving.arrived, settings, MEMBER, host), what=f"it runs on {host}")
                archives_more(trial)
    finally:
        supervisor.stop()
    assert not [each for each in machine.processes() if "jobs/archiver.py" in " ".join(each.cmdline())]
    trial.assert_exact()
    ends(trial)


def gone(path: Path) -> bool:
    return not path.exists()
