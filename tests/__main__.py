"""Run every test: ``python -m tests``, which is what ``make test`` runs.

The platform comes up while the code is linted. Then the tests that use it run, several files at a time. The
tests that kill parts of it follow, one after the other. They mostly wait, so the tests that need no daemon
run beside them at a lower priority; their output is shown at the end. A platform that this brought up is
stopped again. Exits with 1 if anything failed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sluice.stack import network, supervisord
from tests.bring_up import instance_settings, take_down

ALONE = ("-q", "-n", "auto", "--dist", "worksteal", "-m", "not stack and not e2e and not containers")
ON_THE_STACK = (
    *("-v", "--durations=15", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"),
    *("-m", "stack and not e2e"),
)
LINT = ("make", "--no-print-directory", "lint")
PYTEST = (sys.executable, "-m", "pytest")
LOWER = 10  # niceness
KILLING = ("-v", "--durations=15", "-m", "e2e")


def main() -> int:
    settings = instance_settings()
    ours = not supervisord.running(settings)
    try:
        with subprocess.Popen(LINT) as lint:
            up = subprocess.run([sys.executable, "-m", "tests.bring_up"], check=False)
        if up.returncode or lint.returncode:
            return 1
        network.enter(settings)
        failed = [pytest(*ON_THE_STACK)]
        with beside(*ALONE) as alone:
            failed += [pytest(*KILLING), alone.wait() != 0]
        return int(any(failed))
    finally:
        if ours:
            take_down(settings)


@contextmanager
def beside(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Run tests that give way to others; their output is shown at the end."""
    with tempfile.TemporaryFile("w+") as found:
        running = subprocess.Popen(
            [*PYTEST, *options], stdout=found, stderr=subprocess.STDOUT, start_new_session=True, text=True
        )
        give_way(running.pid)
        try:
            yield running
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGTERM)
                running.wait()
            found.seek(0)
            say("Tests without daemons:\n" + found.read())


def give_way(pid: int) -> None:
    """Lower the priority of a process that leads its session."""
    os.setpriority(os.PRIO_PROCESS, pid, LOWER)
    group = Path(f"/proc/{pid}/autogroup")  # here the kernel shares by session before it looks at priorities
    if group.exists():
        group.write_text(str(LOWER))


def pytest(*options: str) -> bool:
    """Whether any of these tests failed."""
    return subprocess.run([*PYTEST, *options], check=False).returncode != 0


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
