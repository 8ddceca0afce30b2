"""Every test: ``python -m tests``, which is what ``make test`` runs.

Those that need no daemon run in what the others leave of the processors, and show what they found at the end.
The others need the platform: it comes up, then those that use it run file by file and side by side, then, one
after the other, those that kill parts of it. What this brought up is stopped at the end. Exits with 1 if any
test failed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from sluice.stack import shutdown, supervisor
from tests.bring_up import instance_settings

ALONE = ("-q", "-n", "auto", "--dist", "worksteal", "-m", "not stack and not e2e")
ON_THE_STACK = ("-v", "--durations=15", "-n", "2", "--dist", "loadfile", "-m", "stack and not e2e")
PYTEST = (sys.executable, "-m", "pytest")
LEAST = 19  # of a process's priority
KILLING = ("-v", "--durations=15", "-m", "e2e")


def main() -> int:
    settings = instance_settings()
    ours = not supervisor.running(settings)
    with tempfile.TemporaryFile("w+") as found:
        alone = subprocess.Popen(
            [*PYTEST, *ALONE], stdout=found, stderr=subprocess.STDOUT, start_new_session=True
        )
        give_way(alone.pid)
        try:
            came_up = subprocess.run([sys.executable, "-m", "tests.bring_up"], check=False).returncode == 0
            failed = [not came_up]
            if came_up:
                failed += [pytest(*ON_THE_STACK), pytest(*KILLING)]
            failed.append(alone.wait() != 0)
            found.seek(0)
            say("Tests without daemons:\n" + found.read())
            return int(any(failed))
        finally:
            if alone.poll() is None:
                os.killpg(alone.pid, signal.SIGTERM)
            if ours:
                shutdown.down(settings, say)


def give_way(pid: int) -> None:
    """Let a process, the leader of its session, have the processors only while nobody else wants them."""
    os.setpriority(os.PRIO_PROCESS, pid, LEAST)
    group = Path(f"/proc/{pid}/autogroup")  # where the kernel shares by session before it looks at priorities
    if group.exists():
        group.write_text(str(LEAST))


def pytest(*options: str) -> bool:
    """Whether any of these tests failed."""
    return subprocess.run([*PYTEST, *options], check=False).returncode != 0


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
