"""Start the instance that the tests use: ``python -m tests.bring_up``.

An instance that runs already is repaired. The instance is ``test``, which starts empty, unless
SLUICE_TEST_INSTANCE names another, which is used as it is.
"""

from __future__ import annotations

import os
import shutil
import sys

from sluice.cli import instance
from sluice.runtime.jvm import QUICK
from sluice.runtime.settings import Settings
from sluice.stack import bringup, entry, releases, shutdown, supervisord
from sluice.stack.catalogue import DAEMONS
from sluice.stack.networking import network, ports
from sluice_lab.bench import databases

TEST_INSTANCE = "test"
#: Variables of whoever starts the instance: no process may get the first, and Airflow alone the second.
DECOY = "A_PASSWORD_OF_SOMEBODY_ELSE"
FOR_AIRFLOW = "AIRFLOW_CONN_SOMEWHERE"


def instance_settings() -> Settings:
    return Settings(instance=os.environ.get("SLUICE_TEST_INSTANCE") or TEST_INSTANCE)


def variables(settings: Settings) -> dict[str, str]:
    """What the instance's processes and the tests themselves have in their environment."""
    return {
        "SLUICE_INSTANCE": settings.instance,
        # Lets tests kill a process at a named point: see sluice.runtime.crash_points.
        "SLUICE_FAULTS": str(settings.home / "faults"),
        # The team's metrics, and those from tests/e2e/failing_metrics, which fail.
        "SLUICE_METRICS__PATH": str(settings.home / "metrics"),
        # No test should have to wait a minute for a metric that hangs.
        "SLUICE_METRICS__SECONDS": "10",
        "JAVA_TOOL_OPTIONS": QUICK,
        # No test should have to wait for an archive file to grow old.
        "SLUICE_ARCHIVE__MAX_AGE_SECONDS": "2",
        # Only units that must move do, soon, and not to this machine if another one takes them.
        "SLUICE_PLACEMENT__MOVES_AN_HOUR": "0",
        "SLUICE_PLACEMENT__SPEEDS": '{"local": 0.01}',
    }


def bring_up(settings: Settings) -> None:
    def say(text: str) -> None:
        print(text, flush=True)

    begin = not supervisord.running(settings)
    if begin:
        take_down(settings)  # a killed run may have left something behind
        if settings.instance == TEST_INSTANCE and settings.home.exists():
            shutil.rmtree(settings.home)
        _metrics(settings)
    network.open_and_enter(settings, say)
    databases.admit(settings)
    if begin or any(entry.check(settings, daemon) for daemon in DAEMONS):
        instance.up(settings, say)


def take_down(settings: Settings) -> None:
    """Stop the instance: at once if it is the tests' own, which starts empty, else gracefully."""
    if settings.instance == TEST_INSTANCE:
        shutdown.abandon(settings)
    else:
        instance.down(settings, print)


def _metrics(settings: Settings) -> None:
    """Fill the instance's folder of team metrics: the project's, and those that fail."""
    folder = settings.home / "metrics"
    folder.mkdir(parents=True, exist_ok=True)
    for source in ("include/metrics", "tests/e2e/failing_metrics"):
        for file in (settings.root / source).glob("*.py"):
            shutil.copy(file, folder)


if __name__ == "__main__":
    chosen = instance_settings()
    os.environ.update(
        variables(chosen) | {DECOY: "decoy", FOR_AIRFLOW: "http://me:decoy-for-airflow@nowhere"}
    )
    try:
        bring_up(chosen)
    except (
        bringup.BringUpFailed,
        ports.PortInUse,
        network.NetworkNotOpened,
        releases.OtherReleaseRuns,
    ) as error:
        sys.exit(str(error))
