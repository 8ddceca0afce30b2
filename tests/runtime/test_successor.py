"""A process is succeeded by another one while it runs, whatever is killed at each step."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from sluice.runtime import detached, successor
from sluice.runtime.detached import ProcessRecord
from sluice.runtime.successor import SUCCESSOR, Overlap
from sluice.runtime.supervision import Supervisor
from sluice_lab.waiting import until

NEXT = "next.job"
OLD, NEW, NEWEST = (["sh", "-c", f": {which}; exec sleep 600"] for which in ("old", "new", "newest"))


class Killed(BaseException):
    """kill -9 of the supervisor."""


class Scene:
    """A job that is supervised, and is to run the command `wanted`."""

    def __init__(self, run: Path) -> None:
        self.run, self.wanted = run, OLD
        self.works = self.ready = False
        self.said: list[str] = []
        self.watch = self.supervisor("first try")

    def supervisor(self, owner: str) -> Supervisor:
        overlap = Overlap(lambda: self.works, lambda: self.ready)
        mark = {"SCENE": str(self.run.parent)}
        return Supervisor(
            "job", lambda: self.wanted, owner, environment=lambda: mark, overlap=overlap, run=self.run
        )

    def poll(self) -> list[str]:
        now = list(self.watch.poll())
        self.said += now
        return now

    def record(self, name: str = "job") -> ProcessRecord:
        found = detached.read(name, self.run)
        assert found
        return found

    def kill(self, name: str) -> None:
        record = self.record(name)
        os.kill(record.pid, signal.SIGKILL)
        until(lambda: not detached.alive(record), what=f"{name} is dead")

    def is_killed(self) -> None:
        """The supervisor is killed, and another one takes over, as the DAG's next try does."""
        self.watch = self.supervisor("second try")
        self.said.append(self.watch.claim())

    def settles(self, argv: list[str]) -> None:
        """After a few looks, one process is left, which runs that command."""

        def settled() -> bool:
            self.poll()
            return self.record().argv == argv and not (self.run / f"{NEXT}.json").exists()

        until(settled, what=f"{argv} runs alone: {self.said}")
        assert self.poll() == []
        # A process that begins to run its command shows no environment for a moment.
        until(lambda: [each.pid for each in processes(self.run)] == [self.record().pid], what="it is alone")


def processes(run: Path) -> list[psutil.Process]:
    """All that the supervisors of this test have started."""
    found = [each for each in psutil.process_iter(["cmdline", "status"]) if each.info["cmdline"]]
    return [
        each for each in found if each.info["status"] != psutil.STATUS_ZOMBIE and marked(each, run.parent)
    ]


def marked(process: psutil.Process, home: Path) -> bool:
    try:
        return process.environ().get("SCENE") == str(home)
    except psutil.Error:
        return False


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """The old command runs, and the new one is wanted."""
    monkeypatch.setattr(successor, "FIRST_PAUSE", 0.0)
    made = Scene(tmp_path / "run")
    made.watch.claim()
    made.works, made.wanted = True, NEW
    yield made
    for process in processes(made.run):
        process.kill()


def test_a_process_runs_until_its_successor_is_ready(scene: Scene) -> None:
    old = scene.record()
    (said,) = scene.poll()
    assert said.startswith("STARTED the successor of job, pid")
    for _ in range(3):
        assert scene.poll() == []
    waits = scene.record(NEXT)
    assert detached.alive(old)
    assert psutil.Process(waits.pid).environ()[SUCCESSOR]
    scene.ready = True
    assert scene.poll()[-1].startswith(f"SUCCEEDED job, by pid {waits.pid}")
    assert not detached.alive(old)
    assert scene.record().pid == waits.pid
    scene.settles(NEW)
    assert scene.watch.restarted_lately == 0, "a move is no restart"


def test_a_process_that_does_not_work_is_replaced_at_once(scene: Scene) -> None:
    scene.works = False
    assert scene.poll()[-1].startswith("STARTED job")
    scene.settles(NEW)


def test_a_process_that_works_no_more_is_replaced_by_the_successor_that_starts(scene: Scene) -> None:
    scene.poll()
    waits = scene.record(NEXT)
    scene.works = False
    scene.poll()
    assert scene.record().pid == waits.pid
    scene.settles(NEW)


def test_a_successor_that_is_not_wanted_any_more_is_stopped(scene: Scene) -> None:
    old = scene.record()
    scene.poll()
    scene.wanted = OLD
    assert scene.poll() == ["STOPPED the successor of job: it is not wanted any more"]
    scene.settles(OLD)
    assert scene.record() == old


def test_a_successor_is_succeeded_by_one_that_is_wanted_instead(scene: Scene) -> None:
    scene.poll()
    before = scene.record(NEXT)
    scene.wanted = NEWEST
    scene.poll()
    assert not detached.alive(before)
    assert scene.record().argv == OLD
    scene.ready = True
    scene.settles(NEWEST)


@pytest.mark.slow
def test_a_successor_that_dies_is_started_again_ever_later_and_the_process_goes_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(successor, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(successor, "FIRST_PAUSE", 1.0)
    scene.watch = scene.supervisor("first try")
    scene.wanted = ["sh", "-c", "exit 1"]
    started = []
    while now[0] < 1080:
        if any(line.startswith("STARTED") for line in scene.poll()):
            started.append(now[0] - 1000)
            waits = scene.record(NEXT)
            until(lambda: not detached.alive(waits), what="it is dead")  # noqa: B023 - called at once
        now[0] += 1
    # There is one look a second: a death is seen one second after the start, then the pause begins.
    assert started == [0, 2, 5, 10, 19, 36, 67]
    assert scene.watch.successor_died_lately == len(started)
    assert scene.record().argv == OLD
    assert detached.alive(scene.record())


@pytest.mark.slow
def test_both_are_stopped_with_the_job_but_not_by_a_former_owner(scene: Scene) -> None:
    scene.poll()
    assert not scene.supervisor("somebody else").stop()
    assert len(processes(scene.run)) == 2
    assert scene.watch.stop()
    assert processes(scene.run) == []
    assert not list(scene.run.glob("*.json"))


#: Who is killed, one after the other.
KILLED = {
    "the process": ("job",),
    "the successor": (NEXT,),
    "the supervisor": ("supervisor",),
    "all but the successor": ("job", "supervisor"),
    "all": ("job", NEXT, "supervisor"),
}


@pytest.mark.slow
@pytest.mark.parametrize("ready", [False, True], ids=["before it is ready", "when it is ready"])
@pytest.mark.parametrize("killed", KILLED.values(), ids=KILLED)
def test_one_runs_in_the_end_whatever_is_killed_while_the_successor_waits(
    scene: Scene, killed: tuple[str, ...], ready: bool
) -> None:
    scene.poll()
    scene.ready = ready
    for name in killed:
        scene.is_killed() if name == "supervisor" else scene.kill(name)
    scene.poll()
    scene.ready = True
    scene.settles(NEW)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [OLD, NEW, NEWEST], ids=["the old", "the new", "another"])
@pytest.mark.parametrize("step", ["ensure", "stop", "_write", "forget"])
def test_one_runs_in_the_end_if_the_supervisor_is_killed_after_any_step(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, step: str, wanted: list[str]
) -> None:
    """The next supervisor finds the old command wanted, or the new one, or a third one."""
    if step != "ensure":
        scene.poll()
        scene.ready = True
    whole = getattr(detached, step)

    def then_killed(*args: object, **options: object) -> None:
        whole(*args, **options)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(detached, step, then_killed)
        with pytest.raises(Killed):
            scene.poll()
    scene.wanted = wanted
    scene.is_killed()
    scene.ready = True
    scene.settles(wanted)
