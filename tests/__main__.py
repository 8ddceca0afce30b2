"""Every test: ``python -m tests``, which is what ``make test`` runs.

Those that need no daemon run side by side while the platform comes up that the others need. Then those that
use it, file by file and side by side, for most of their time they wait. Then, one after the other, those that
kill parts of it. What this brought up is stopped at the end. Exits with 1 if any test failed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

from sluice.stack import shutdown, supervisor
from tests.bring_up import instance_settings

ALONE = ("-q", "-n", "auto", "--dist", "worksteal", "-m", "not stack and not e2e")
ON_THE_STACK = ("-v", "--durations=15", "-n", "2", "--dist", "loadfile", "-m", "stack and not e2e")
KILLING = ("-v", "--durations=15", "-m", "e2e")


def main() -> int:
    settings = instance_settings()
    ours = not supervisor.running(settings)
    with tempfile.TemporaryFile("w+") as said:
        bringing_up = subprocess.Popen(
            [sys.executable, "-m", "tests.bring_up"], stdout=said, stderr=subprocess.STDOUT
        )
        try:
            failed = [pytest(*ALONE)]
            came_up = bringing_up.wait() == 0
            said.seek(0)
            say(said.read())
            if came_up:
                failed += [pytest(*ON_THE_STACK), pytest(*KILLING)]
            return 0 if came_up and not any(failed) else 1
        finally:
            if bringing_up.poll() is None:
                bringing_up.terminate()
                bringing_up.wait()
            if ours:
                shutdown.down(settings, say)


def pytest(*options: str) -> bool:
    """Whether any of these tests failed."""
    return subprocess.run([sys.executable, "-m", "pytest", *options], check=False).returncode != 0


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
