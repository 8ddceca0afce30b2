"""Bring up the instance that the tests use: ``python -m tests.bring_up NAME``, with its variables set."""

from __future__ import annotations

import shutil
import sys

from sluice.settings import Settings
from sluice.stack import bringup, entry, shutdown, supervisor
from sluice.stack.catalogue import DAEMONS


def bring_up(settings: Settings, *, empty: bool) -> None:
    """One that does not run is started, with nothing in it if it shall be ``empty``; a sick one is mended."""

    def say(text: str) -> None:
        print(text, flush=True)

    begin = not supervisor.running(settings)
    if begin:
        shutdown.down(settings, say)  # what a run that was killed left behind
        if empty and settings.home.exists():
            shutil.rmtree(settings.home)
    if begin:
        metrics(settings)
    if begin or any(entry.check(settings, daemon) for daemon in DAEMONS):
        bringup.up(settings, say)


def metrics(settings: Settings) -> None:
    """The folder of the team's metrics that the platform gets: its own, and those that fail."""
    folder = settings.home / "metrics"
    folder.mkdir(parents=True, exist_ok=True)
    for source in (
        settings.root / "include" / "metrics",
        settings.root / "tests" / "e2e" / "failing_metrics",
    ):
        for file in source.glob("*.py"):
            shutil.copy(file, folder)


if __name__ == "__main__":
    try:
        bring_up(Settings(instance=sys.argv[1]), empty="--empty" in sys.argv)
    except (bringup.BringUpFailed, bringup.PortInUse) as error:
        sys.exit(str(error))
