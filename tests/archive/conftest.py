"""Trials of the archive on the running stack, and a process that dies at a point."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.archive.archiver import Archiver
from sluice.archive.heartbeat import Heartbeat
from sluice.runtime import crash_points
from sluice.runtime.sections import Archive
from sluice.runtime.settings import Settings
from tests.archive.archive_trial import Here, Trial, trial_of
from tests.archive.local_archive import Killed


@pytest.fixture
def trial(stack: Settings, tmp_path: Path) -> Iterator[Trial]:
    with trial_of(stack, tmp_path) as trial:
        yield trial


@pytest.fixture
def archive_here(trial: Trial) -> Iterator[Callable[..., Here]]:
    """Starts an archiver of the trial's topic in this process, with small files."""
    running: list[Here] = []

    def start(**limits: Any) -> Here:
        settings = trial.settings.model_copy(
            update={"archive": Archive(**({"max_lines": 500, "max_age_seconds": 0.5} | limits))}
        )
        stopping, path = threading.Event(), trial.scratch / f"here-{len(running)}.json"
        archiver = Archiver(settings, trial.topic, Heartbeat(path), stopping)
        thread = threading.Thread(target=archiver.run, daemon=True)
        thread.start()
        running.append(Here(path, stopping, thread, trial.topic))
        return running[-1]

    yield start
    for here in running:
        here.stop()


@pytest.fixture
def dies(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the process die when it reaches a point for the nth time."""

    def kill(*_: object) -> None:
        raise Killed

    def at(point: str, times: int = 1) -> None:
        crash_points._reached.clear()
        monkeypatch.setenv("SLUICE_FAULT", f"{point}:{times}")

    monkeypatch.setattr(crash_points, "os", SimpleNamespace(kill=kill, getpid=int, environ=os.environ))
    return at
