"""A crew: several processes of one job, found again, resized by one, and stopped together."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.runtime import crew, detached, successor
from sluice.runtime.crew import Crew
from sluice.runtime.supervision import Superseded, Supervisor
from sluice_lab.waiting import until

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
Start = Callable[..., Crew]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setattr(crew, "DECIDE_SECONDS", 0.0)
    run = tmp_path / "run"

    def make(wanted: int, owner: str = "me") -> Crew:
        return Crew("job", lambda name: Supervisor(name, SLEEP, owner, run=run), lambda now, members: wanted)

    yield make
    for name in detached.names(run):
        if (record := detached.read(name, run)) is not None:
            detached.stop(record, 0, run=run)


def running(tmp_path: Path) -> dict[str, int]:
    run = tmp_path / "run"
    records = [detached.read(name, run) for name in detached.names(run)]
    return {record.name: record.pid for record in records if record and detached.alive(record)}


@pytest.mark.slow
def test_a_crew_grows_and_shrinks_by_one_at_a_time(start: Start, tmp_path: Path) -> None:
    wide = start(3)
    wide.claim()
    assert list(running(tmp_path)) == ["job"]
    (said,) = wide.poll()
    assert "ONE MORE, now 2: STARTED job-2" in said
    list(wide.poll())
    assert not list(wide.poll())
    assert sorted(running(tmp_path)) == ["job", "job-2", "job-3"]
    narrow = start(1)
    assert list(narrow.poll()) == ["ONE LESS, now 2: stopped job-3"]
    list(narrow.poll())
    assert not list(narrow.poll())
    assert list(running(tmp_path)) == ["job"]


@pytest.mark.slow
def test_members_that_died_while_nobody_watched_are_forgotten(start: Start, tmp_path: Path) -> None:
    wide = start(3)
    wide.claim()
    for _ in range(2):
        list(wide.poll())
    os.kill(running(tmp_path)["job-3"], signal.SIGKILL)
    until(lambda: "job-3" not in running(tmp_path))
    start(2).claim()
    assert detached.names(tmp_path / "run") == ["job", "job-2"]


@pytest.mark.slow
def test_a_member_that_died_while_its_successor_waits_is_a_member(start: Start, tmp_path: Path) -> None:
    wide = start(3)
    wide.claim()
    for _ in range(2):
        list(wide.poll())
    waits = detached.start(successor.name_of("job-3"), SLEEP, run=tmp_path / "run", owner="me")
    os.kill(running(tmp_path)["job-3"], signal.SIGKILL)
    until(lambda: "job-3" not in running(tmp_path))
    start(3).claim()
    assert running(tmp_path)["job-3"] == waits.pid
    assert start(3).stop()
    assert not running(tmp_path)


def test_the_first_member_stays_whatever_is_wanted(start: Start, tmp_path: Path) -> None:
    one = start(0)
    one.claim()
    assert not list(one.poll())
    assert list(running(tmp_path)) == ["job"]


def test_a_member_that_dies_is_started_again_under_its_name(start: Start, tmp_path: Path) -> None:
    two = start(2)
    two.claim()
    list(two.poll())
    killed = running(tmp_path)["job-2"]
    os.kill(killed, signal.SIGKILL)

    def another() -> bool:
        list(two.poll())
        return running(tmp_path).get("job-2") not in (None, killed)

    until(another, poll=0.01)
    assert two.restarted_lately == 1


@pytest.mark.slow
def test_the_next_owner_takes_all_members_and_the_former_one_stops_none(start: Start, tmp_path: Path) -> None:
    former = start(3)
    former.claim()
    list(former.poll())
    list(former.poll())
    before = running(tmp_path)
    following = start(3, "you")
    assert following.claim().count("ADOPTED") == 3
    assert not list(following.poll())
    with pytest.raises(Superseded):
        list(former.poll())
    assert not former.stop()
    assert running(tmp_path) == before
    assert start(3, "you").stop()
    assert not running(tmp_path)


@pytest.mark.slow
def test_a_restart_gives_every_member_a_new_process(start: Start, tmp_path: Path) -> None:
    two = start(2)
    two.claim()
    list(two.poll())
    before = running(tmp_path)
    list(two.restart("a connection changed"))
    after = running(tmp_path)
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
