"""Detached processes are found again, never doubled, and never mistaken for another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.runtime import detached
from sluice_lab.waiting import SECONDS, until

SLEEP = ["sleep", "60"]


@pytest.fixture
def run(tmp_path: Path):
    yield tmp_path / "run"
    for file in (tmp_path / "run").glob("*.json"):
        if (record := detached.read(file.stem, tmp_path / "run")) is not None:
            detached.stop(record, 0, run=tmp_path / "run")


def test_start_is_detached_recorded_and_logged(run: Path, tmp_path: Path) -> None:
    record = detached.start("p", ["sh", "-c", "echo $GREETING; exec sleep 60"], {"GREETING": "hi"}, run=run)
    log = tmp_path / "logs" / "p.log"
    until(lambda: "\nhi\n" in log.read_text())
    assert os.getsid(record.pid) == record.pid != os.getsid(0)
    assert json.loads((run / "p.json").read_text())["token"] == record.token
    assert detached.adopt("p", run) == record
    assert Path(f"/proc/{record.pid}/fd/0").resolve() == Path("/dev/null")


def test_second_start_is_refused_and_ensure_adopts(run: Path) -> None:
    record = detached.start("p", SLEEP, run=run)
    with pytest.raises(detached.AlreadyRunning, match=f"pid {record.pid}") as error:
        detached.start("p", SLEEP, run=run)
    assert error.value.record == record
    assert detached.ensure("p", SLEEP, run=run, owner="") == (record, False)


@pytest.mark.slow
def test_racing_starters_make_one_process(run: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sluice.runtime import detached\n"
        "r, started = detached.ensure('p', ['sleep', '60'], run=Path(sys.argv[1]))\n"
        "print(r.pid, started)"
    )
    starters = [
        subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = [s.communicate(timeout=SECONDS)[0].split() for s in starters]
    assert len({pid for pid, _ in said}) == 1
    assert sorted(started for _, started in said) == ["False", "False", "False", "True"]
    assert detached.alive(detached.adopt("p", run))  # and it outlives its starter


def test_killed_child_is_reaped_and_dead(run: Path) -> None:
    record = detached.start("p", SLEEP, run=run)
    os.kill(record.pid, signal.SIGKILL)
    until(lambda: not detached.alive(record) and not Path(f"/proc/{record.pid}").exists())
    assert detached.adopt("p", run) is None


def test_zombie_of_another_parent_is_dead(run: Path) -> None:
    parent = subprocess.Popen(["sh", "-c", "sleep 0.1 & echo $!; exec sleep 60"], stdout=subprocess.PIPE)
    try:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        stat = Path(f"/proc/{pid}/stat")
        start_time = int(stat.read_text().rsplit(")", 1)[1].split()[19])
        record = detached.ProcessRecord("z", pid, start_time, detached._boot(), "t", [], "")
        until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "Z")
        assert not detached.alive(record)
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.parametrize("change", [{"start_time": 1}, {"boot": "another"}])
def test_reused_pid_is_not_the_process(run: Path, change: dict) -> None:
    record = detached.start("p", SLEEP, run=run)
    assert not detached.alive(replace(record, **change))


def test_stop_kills_what_ignores_sigterm(run: Path) -> None:
    script = "trap '' TERM; sleep 60 & echo ready; wait; sleep 60"
    record = detached.start("p", ["sh", "-c", script], run=run)
    until(lambda: "ready\n" in (run.parent / "logs" / "p.log").read_text())
    begun = time.monotonic()
    assert detached.stop(record, 0.3, run=run)
    assert time.monotonic() - begun < 30
    assert not detached.alive(record)
    assert detached._members(record) == []
    assert detached.read("p", run) is None
    assert not detached.stop(record, 0, run=run)


@pytest.mark.slow
def test_stop_lets_a_process_end_its_children_and_then_ends_what_it_left(run: Path) -> None:
    child = "trap 'echo {0} was ended; exit' TERM; echo {0} is ready; while :; do sleep 0.1; done"
    script = "trap 'sleep 0.3; echo stops; kill $this; wait $this; exit' TERM; "
    script += f"({child.format('this')}) & this=$!; ({child.format('that')}) & wait"
    record = detached.start("p", ["sh", "-c", script], run=run)
    log = run.parent / "logs" / "p.log"
    ready = {"this is ready", "that is ready"}  # whole lines: the first one of the log has the script
    until(lambda: ready <= set(log.read_text().splitlines()))
    assert detached.stop(record, run=run)
    said = [line for line in log.read_text().splitlines() if line.endswith(("stops", " ended"))]
    assert said == ["stops", "this was ended", "that was ended"]


def test_start_clears_what_a_killed_leader_left(run: Path) -> None:
    record = detached.start("p", ["sh", "-c", "sleep 60 & sleep 60"], run=run)
    until(lambda: len(detached._members(record)) == 3)
    os.kill(record.pid, signal.SIGKILL)
    until(lambda: not detached.alive(record))
    assert len(detached._members(record)) == 2
    again = detached.start("p", SLEEP, run=run)
    until(lambda: detached._members(record) == [])
    assert detached.alive(again)


def test_starter_that_died_before_the_pid_was_written_leaves_a_findable_process(run: Path) -> None:
    record = detached.start("p", SLEEP, run=run)
    detached._write(replace(record, pid=0, start_time=0), run)
    assert detached.adopt("p", run) == record
    with pytest.raises(detached.AlreadyRunning):
        detached.start("p", SLEEP, run=run)


def test_order_of_a_former_owner_to_stop_does_nothing(run: Path) -> None:
    record = detached.start("p", SLEEP, run=run, owner="first")
    adopted = detached.adopt("p", run, owner="second")
    assert adopted == replace(record, owner="second")
    assert not detached.stop(record, 0, run=run, owner="first")
    assert detached.alive(record)
    assert detached.stop(adopted, 1, run=run, owner="second")


def test_stop_spares_the_successor(run: Path) -> None:
    record = detached.start("p", SLEEP, run=run, owner="x")
    os.kill(record.pid, signal.SIGKILL)
    until(lambda: not detached.alive(record))
    successor = detached.start("p", SLEEP, run=run, owner="x")
    assert not detached.stop(record, 0, run=run, owner="x")
    assert not detached.stop(record, 0, run=run)
    assert detached.adopt("p", run) == successor


@pytest.mark.slow
def test_log_is_turned_at_start(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "LOG_BYTES", 10)
    for n in range(detached.LOGS_KEPT + 2):
        detached.stop(detached.start("p", ["echo", f"round {n}"], run=run), 0, run=run)
    kept = sorted(p.name for p in (tmp_path / "logs").iterdir())
    assert kept == ["p.log", *(f"p.log.{n}" for n in range(1, detached.LOGS_KEPT + 1))]


def test_a_name_may_have_dots_like_a_host(run: Path) -> None:
    detached.start("flume-web1.example.com", SLEEP, run=run)
    (run / "speed_layer.progress.json").write_text("{}")  # a job's progress, not a record
    assert detached.names(run) == ["flume-web1.example.com"]
    (run / "speed_layer.progress.json").unlink()


def test_a_process_that_cannot_start_says_why(run: Path) -> None:
    with pytest.raises(detached.ProcessError, match="nosuchprogram: No such file"):
        detached.start("p", ["nosuchprogram"], run=run)
    assert detached.adopt("p", run) is None


def test_broken_record_names_the_file(run: Path) -> None:
    run.mkdir(parents=True)
    (run / "p.json").write_text("{")
    with pytest.raises(detached.ProcessError, match=r"p\.json"):
        detached.read("p", run)
    (run / "p.json").unlink()
