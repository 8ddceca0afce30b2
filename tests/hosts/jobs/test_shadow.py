"""A shadow and its job: started, adopted, ended, unknown, left behind. The host is a real SSH server."""

from __future__ import annotations

import json
import shlex
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.metrics import team
from sluice.runtime import holds
from sluice.runtime.holds import Hold
from sluice.runtime.settings import ROOT, TOLD, Settings, followed, newest
from sluice.stack import jobs
from sluice.stack.progress import progress_file
from sluice_hosts import hosts
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.hosts import Host
from sluice_hosts.jobs import far, job_state, leftovers, shadow
from sluice_hosts.jobs.far import FarJob
from sluice_hosts.jobs.shadow import POLL_SECONDS, Shadow
from sluice_hosts.links import release
from sluice_hosts.links.release import ReleaseError
from sluice_hosts.trust import broker, enrolment
from sluice_hosts.trust.enrolment import EnrolError
from sluice_lab.waiting import until
from tests.processes import command_line

pytestmark = [pytest.mark.slow, pytest.mark.long]

MEMBER = "archiver-2"
ARGUMENTS = ["--member", MEMBER]


class Standing:
    """A shadow in a thread, and what it has said."""

    def __init__(self, settings: Settings, host: Host) -> None:
        self._settings = settings
        self.said: list[str] = []
        self.code: list[int] = []
        self.stop = threading.Event()
        self.job = FarJob(settings, host, MEMBER)
        made = Shadow(settings, MEMBER, host.name, self.job, self.stop)
        self._thread = threading.Thread(
            target=lambda: self.code.append(made.run(ARGUMENTS, self.said.append))
        )
        self._thread.start()

    def end(self) -> None:
        self.stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive()

    def becomes(self, wanted: str) -> job_state.FarState:
        """Wait until the shadow says so."""

        def so() -> job_state.FarState | None:
            path = self._settings.home / "elsewhere" / f"{MEMBER}.json"
            found = job_state.FarState(**json.loads(path.read_text())) if path.exists() else None
            return found if found and found.state == wanted else None

        found = until(so, what=wanted)
        assert found
        return found


@pytest.fixture
def stand(settings: Settings, host: Host, machine: EmulatedHost) -> Iterator[Callable[..., Standing]]:
    def make(given: Settings = settings) -> Standing:
        made.append(Standing(given, host))
        return made[-1]

    made: list[Standing] = []
    yield make
    machine.reconnect()
    for each in made:
        each.end()
    leftovers.stop(settings, print)


def pids(machine: EmulatedHost) -> list[int]:
    return [each.pid for each in machine.processes() if "jobs/archiver.py" in " ".join(command_line(each))]


def test_a_job_starts_elsewhere_is_shown_here_and_stops_in_order(
    settings: Settings,
    machine: EmulatedHost,
    stand: Callable[[], Standing],
    capfd: pytest.CaptureFixture[str],
) -> None:
    standing = stand()
    (pid,) = [standing.becomes("alive").pid]
    assert pids(machine) == [pid]
    path = progress_file(settings, MEMBER)
    until(path.exists, what="the job's progress is here")
    document = json.loads(path.read_text())
    assert document["pid"] == pid
    assert time.time() - jobs.written(jobs.of_member(settings, MEMBER)) < 600, "by the clock of this machine"
    standing.end()
    assert standing.code == [0]
    assert standing.said[-1] == f"{MEMBER}: stopped on h1"
    assert not pids(machine)
    assert "began with --member archiver-2 --progress" in capfd.readouterr().out
    logs = list(machine.home.glob(f".sluice/*/jobs/{MEMBER}/state/logs/out"))
    assert "ended in order" in logs[0].read_text()


def test_secrets_are_in_files_for_the_account_alone_and_in_no_command(
    settings: Settings, machine: EmulatedHost, stand: Callable[[], Standing]
) -> None:
    stand().becomes("alive")
    files = machine.home.glob(f".sluice/*/jobs/{MEMBER}/versions/*/**/*")
    for path in filter(Path.is_file, files):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    secret = settings.postgres.password or "SLUICE_POSTGRES"
    assert not [each for each in machine.processes() if secret in " ".join(command_line(each))]


def test_a_job_waits_until_kafka_knows_its_host(
    settings: Settings, machine: EmulatedHost, stand: Callable[[], Standing]
) -> None:
    broker.record(settings, "h1", [])
    standing = stand()
    until(lambda: "Kafka does not know host-h1 yet" in standing.becomes("starts").why, what="why it waits")
    assert not pids(machine)
    broker.record(settings, "h1", [broker.ALL])
    standing.becomes("alive")
    (version,) = machine.home.glob(f".sluice/*/jobs/{MEMBER}/versions/*")
    given = json.loads(environment(version)["SLUICE_KAFKA"])
    assert given["bootstrap"] == f"127.0.0.1:{settings.port('kafka_hosts')}"
    assert given["login"]["password"] == broker.password(settings, "h1")


def environment(version: Path) -> dict[str, str]:
    lines = shlex.split((version / "environment").read_text())
    return dict(each.split("=", 1) for each in lines if "=" in each)


def test_a_second_shadow_adopts_the_job_and_one_with_other_settings_restarts_it(
    settings: Settings, host: Host, machine: EmulatedHost, stand: Callable[[], Standing]
) -> None:
    first = stand()
    pid = first.becomes("alive").pid
    job = FarJob(settings, host, MEMBER)
    assert not job.start(ARGUMENTS, print)
    assert job.status().pid == pid
    other = settings.model_copy(update={"archive": settings.archive.model_copy(update={"max_lines": 7})})
    assert FarJob(other, host, MEMBER).start(ARGUMENTS, print)
    (now,) = pids(machine)
    assert now != pid
    (version,) = machine.home.glob(f".sluice/*/jobs/{MEMBER}/versions/*")
    assert '"max_lines": 7' in (version / "environment").read_text()


def test_a_job_of_an_older_platform_is_not_adopted(
    settings: Settings, host: Host, machine: EmulatedHost, root: Path
) -> None:
    job = FarJob(settings, host, MEMBER)
    try:
        assert job.start(ARGUMENTS, print)
        assert not job.start(ARGUMENTS, print)
        (root / "jobs" / "newer.py").touch()
        release.checksum.cache_clear()  # as in the next process
        assert job.start(ARGUMENTS, print)
    finally:
        job.stop()
        release.checksum.cache_clear()


@pytest.fixture
def platform(settings: Settings, root: Path) -> Iterator[Settings]:
    """The settings of a platform that was upgraded, in another folder: its host is not yet."""
    newer = root.parent / "newer"
    shutil.copytree(root, newer)
    (newer / "jobs" / "newer.py").touch()
    release.checksum.cache_clear()  # as in the next process
    yield settings.model_copy(update={"root": newer})
    release.checksum.cache_clear()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow, "RELEASE_SECONDS", 0.1)


@pytest.mark.usefixtures("impatient")
def test_a_job_of_an_older_platform_is_stopped_and_waits_for_its_host_to_be_updated(
    settings: Settings, machine: EmulatedHost, platform: Settings, stand: Callable[..., Standing]
) -> None:
    assert FarJob(settings, hosts.load(settings)["h1"], MEMBER).start(ARGUMENTS, print)
    (old,) = pids(machine)
    release.checksum.cache_clear()
    standing = stand(platform)
    assert "bring the checkout there to the platform's commit" in standing.becomes("stopped").why
    assert standing.said == [f"{MEMBER}: stopped on h1, which has another release"]
    assert not pids(machine)
    assert not standing.code, "it waits, so nobody counts its deaths"
    (settings.root / "jobs" / "newer.py").touch()
    assert standing.becomes("alive").pid != old
    assert len(pids(machine)) == 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("change", ["platform", "hosts.yaml"])
def test_a_shadow_that_waits_for_another_release_ends_when_another_is_wanted(
    settings: Settings, platform: Settings, stand: Callable[..., Standing], change: str
) -> None:
    standing = stand(platform)
    standing.becomes("stopped")
    if change == "platform":
        (platform.root / "jobs" / "newest.py").touch()
    else:
        path = settings.home / hosts.FILE
        path.write_text(path.read_text().replace("release: ", "release: /another"))
    until(lambda: standing.code, what="the shadow ends")
    assert standing.code == [1]
    assert standing.said == [f"{MEMBER}: other files are to be compared now: the next shadow does that"]


def test_a_shadow_that_waits_for_another_release_can_be_told_to_stop(
    platform: Settings, stand: Callable[..., Standing]
) -> None:
    standing = stand(platform)
    standing.becomes("stopped")
    standing.end()
    assert (standing.code, standing.said) == ([0], [])


def test_other_requirements_are_another_release(
    settings: Settings, host: Host, machine: EmulatedHost, root: Path
) -> None:
    elsewhere = root.parent / "release"
    shutil.copytree(root, elsewhere)
    other = host.model_copy(update={"release": str(elsewhere)})
    enrolment.check(settings, host)
    (elsewhere / "requirements.txt").write_text("numpy==1.0\n")
    with pytest.raises(ReleaseError, match="not the platform's version"):
        enrolment.check(settings, other)


def test_packages_that_were_not_installed_are_named(
    settings: Settings, host: Host, machine: EmulatedHost, root: Path
) -> None:
    """As after an upgrade of the checkout without `make setup`."""
    python = root / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "include"} exec {sys.executable} "$@"\n')
    (root / "requirements.txt").write_text("".join(f"absent{n}==1.0\n" for n in range(7)))
    release.checksum.cache_clear()
    try:
        with pytest.raises(
            ReleaseError, match=r"\(absent0 is missing, .*absent4 is missing, and 2 more\): run `make setup`"
        ):
            FarJob(settings, host, MEMBER).start(ARGUMENTS, print)
    finally:
        release.checksum.cache_clear()
    assert not pids(machine)


def test_a_job_is_told_a_setting_that_it_follows_when_that_changes(
    settings: Settings, machine: EmulatedHost, stand: Callable[[], Standing], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = stand().becomes("alive").pid
    (home,) = machine.home.glob(f".sluice/*/jobs/{MEMBER}/state")
    assert (home / TOLD).read_text() == followed(settings)
    monkeypatch.setenv("SLUICE_SPEED__DRIVERS", "3")  # as if settings.yaml was edited here
    until(lambda: (home / TOLD).read_text() == followed(newest(settings)), what="the job is told")
    assert pids(machine) == [pid], "it was not restarted"


def test_a_job_is_held_while_a_disk_of_the_platform_is_nearly_full(
    settings: Settings, machine: EmulatedHost, stand: Callable[[], Standing]
) -> None:
    stand().becomes("alive")
    (home,) = machine.home.glob(f".sluice/*/jobs/{MEMBER}/state")
    assert holds.reason(home, Hold.LAYERS) == ""
    holds.hold(settings.home, Hold.LAYERS, "no space")
    until(lambda: holds.reason(home, Hold.LAYERS) == "no space", what="the job is held")
    holds.release(settings.home, Hold.LAYERS)
    until(lambda: not holds.reason(home, Hold.LAYERS), what="the job goes on")


def test_the_progress_of_the_process_before_is_not_shown_as_that_of_the_next(
    settings: Settings, machine: EmulatedHost, stand: Callable[[], Standing]
) -> None:
    stand().becomes("alive")
    (left,) = machine.home.glob(f".sluice/*/jobs/{MEMBER}/state/progress.json")
    path = progress_file(settings, MEMBER)
    until(path.exists, what="the job's progress is here")
    path.unlink()
    before = json.loads(left.read_text())
    left.write_text(json.dumps({**before, "pid": before["pid"] + 1}))
    time.sleep(2 * POLL_SECONDS)
    assert not path.exists()
    left.write_text(json.dumps({**before, "topics": {"logs": {"state": "archiving"}}}))
    until(path.exists, what="its own progress is here")


def test_the_teams_metrics_go_along(machine: EmulatedHost, stand: Callable[[], Standing]) -> None:
    stand().becomes("alive")
    found = machine.home.glob(f".sluice/*/jobs/{MEMBER}/current/metrics/*.py")
    assert {path.name: path.read_text() for path in found} == team.found()


def test_a_shadow_ends_with_its_job(machine: EmulatedHost, stand: Callable[[], Standing]) -> None:
    standing = stand()
    standing.becomes("alive")
    for each in machine.processes("python"):
        if each.pid in pids(machine):
            each.kill()
    until(lambda: standing.code, what="the shadow ends")
    assert standing.code == [1]
    assert standing.said[-1] == f"{MEMBER}: it has ended on h1"


def test_a_job_of_a_silent_host_is_unknown_and_what_it_leaves_is_stopped_when_the_host_answers(
    settings: Settings,
    host: Host,
    machine: EmulatedHost,
    stand: Callable[[], Standing],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    standing = stand()
    pid = standing.becomes("alive").pid
    monkeypatch.setattr(far, "LOOK_SECONDS", 1.0)
    machine.cut_off()
    assert "does not answer" in standing.becomes("unknown").why
    standing.end()
    assert standing.code == [0]
    assert "may still run on h1, and is stopped when that answers" in standing.said[-1]
    assert pids(machine) == [pid], "nothing reached it"
    said: list[str] = []
    machine.reconnect()
    until(lambda: not leftovers.stop(settings, said.append) and said, what="it is stopped")
    assert said == [f"{MEMBER}: stopped on h1, where it was left"]
    assert not pids(machine)
    assert leftovers.found(settings, host) == []


def test_a_shadow_ends_if_its_silent_host_is_reached_in_another_way_now(
    settings: Settings, machine: EmulatedHost, stand: Callable[[], Standing], monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = stand()
    standing.becomes("alive")
    monkeypatch.setattr(far, "LOOK_SECONDS", 1.0)
    machine.cut_off()
    standing.becomes("unknown")
    assert not standing.code
    path = settings.home / hosts.FILE
    path.write_text(path.read_text().replace(f"port: {machine.port}", "port: 1"))
    until(lambda: standing.code, what="the shadow ends")
    assert standing.code == [1]
    assert "was enrolled again" in standing.said[-1]
    path.write_text(path.read_text().replace("port: 1}", f"port: {machine.port}}}"))


def test_another_release_is_refused_with_the_remedy(
    settings: Settings, host: Host, machine: EmulatedHost, root: Path
) -> None:
    elsewhere = root.parent / "release"
    elsewhere.mkdir()
    other = host.model_copy(update={"release": str(elsewhere)})
    with pytest.raises(ReleaseError, match=r"release = .*: that is not the platform's version .*make setup"):
        FarJob(settings, other, MEMBER).start(ARGUMENTS, print)
    assert not pids(machine)
    with pytest.raises(ReleaseError, match="not the platform's version"):
        enrolment.check(settings, other)
    with pytest.raises(EnrolError, match="release moved"):
        enrolment.check(settings, host.model_copy(update={"release": None, "roles": ("edge",)}))
    (root / ".venv" / "bin" / "python").write_text("#!/bin/sh\necho no module; exit 1\n")
    with pytest.raises(
        ReleaseError, match=r"its .venv/bin/python does not run Sluice .*no module.*make setup"
    ):
        enrolment.check(settings, host)
