"""PostgreSQL's data is deleted under lines, and made again from the archive: none is lost, none doubled."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import signal
import subprocess

import pytest

from sluice.backup.contents import DATABASE, RECOVERING
from sluice.backup.recover import DEFINED
from sluice_lab.access_lines import access_lines
from sluice_lab.draining import DRAIN_SECONDS
from sluice_lab.waiting import until
from tests.e2e.beside import InstanceBeside, counted
from tests.e2e.running import PIECE, TIMEOUT_SECONDS, TOPIC, traffic

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(TIMEOUT_SECONDS)]

FIRST, SECOND = dt.date(2024, 6, 3), dt.date(2024, 6, 4)
NEW_TASK = """
- name: hits_by_method
  topic: logs
  period: 1d
  dimensions:
    - name: method
      extract: {field: method}
  metrics: [count]
"""
RECOVERY_SECONDS, REBUILD_SECONDS = 600.0, 600.0


@pytest.fixture
def running(beside: InstanceBeside) -> InstanceBeside:
    """The instance with a day that is published and archived, and a task of somebody's own."""
    beside.done("up")
    beside.write(FIRST, access_lines(FIRST, 400, seed=1))
    until(lambda: sum(beside.hits(FIRST).values()) == 400, DRAIN_SECONDS, "all lines count", 2)
    file = beside.home / "tasks.yaml"
    file.write_text(NEW_TASK)
    beside.done("tasks", "apply", "-f", str(file))
    beside.done("nightly", "--from", f"{FIRST}", "--to", f"{FIRST}")
    return beside


def lose(instance: InstanceBeside) -> None:
    """Delete PostgreSQL's data under the running server, which then dies."""
    data = instance.home / DATABASE
    pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    os.kill(pid, signal.SIGKILL)
    until(lambda: (shutil.rmtree(data, ignore_errors=True), not data.exists())[1], 60.0, "the data is gone")


def test_a_lost_database_is_made_again_under_lines(running: InstanceBeside) -> None:
    log = running.home / "logs" / "watch.log"
    # The night took longer than a round of the watch, so what is kept last has the task, or is to come.
    until(lambda: "definitions changed" in log.read_text(), 120.0, "the watch keeps the definitions")
    more, written = access_lines(SECOND, 12_000, seed=2), list[str]()

    def write(done: int) -> None:
        some = more[done : done + PIECE]
        running.write(SECOND, some)
        written.extend(some)

    with traffic(write):
        until(lambda: sum(running.hits(SECOND).values()) >= 200, DRAIN_SECONDS, "lines of the second day", 2)
        lose(running)
        running.sluice("down")
        # Its supervisor may have configured it once more, in between.
        shutil.rmtree(running.home / DATABASE, ignore_errors=True)
        assert "sluice --instance trial recover" in running.refused("up")
        assert not (running.home / DATABASE / "PG_VERSION").exists()
        plan = running.done("recover", "--dry-run")
        assert "hits_by_method" in plan
        assert "nothing was changed" in plan

        # One that is killed leaves an instance that does not start, and the next one goes on.
        first = subprocess.Popen(running.command("recover"), env=running.environment)
        marker = running.home / RECOVERING
        until(lambda: marker.exists() and marker.read_text() == DEFINED, RECOVERY_SECONDS, "it has the tasks")
        first.kill()
        first.wait()
        assert "half recovered" in running.refused("up")
        said = running.done("recover")
        assert "it goes on" in said
        assert "What does not come back" in said
        assert "never replaces a database" in running.refused("recover")
        running.done("up")
        late = access_lines(FIRST, 50, seed=3)
        running.write(FIRST, late)

    lines = {FIRST: [*access_lines(FIRST, 400, seed=1), *late], SECOND: written}
    for day, own in lines.items():
        wanted = counted(own)
        until(lambda: running.hits(day) == wanted, REBUILD_SECONDS, lambda: f"{day}: {running.hits(day)}", 5)  # noqa: B023
    assert "hits_by_method" in running.done("tasks", "list")
    running.done("archive", "verify", TOPIC, "--deep")
    night = running.done("nightly", "--from", f"{FIRST}", "--to", f"{SECOND}")
    for day, own in lines.items():
        assert f"{day} {TOPIC}: agrees" in night
        assert running.hits(day) == counted(own)
    assert ' "lost": 0' in running.done("audit", "--format", "json")
