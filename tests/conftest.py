"""The running stack, for the tests that need it, and the order of the tests: quick ones first."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest

from sluice.settings import Settings, get_settings
from sluice.stack import bringup, entry, shutdown, supervisor
from sluice.stack.catalogue import DAEMONS
from sluice.stack.environment import environment

TEST_INSTANCE = "test"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests without daemons, then those with, then those that kill them."""
    items.sort(
        key=lambda item: (bool(item.get_closest_marker("e2e")), bool(item.get_closest_marker("stack")))
    )


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """The settings of a running instance: the one that SLUICE_TEST_INSTANCE names, else ``test``.

    One that does not run is brought up, and stopped at the end of the run; ``test`` then begins empty.
    """
    name = os.environ.get("SLUICE_TEST_INSTANCE") or TEST_INSTANCE
    before = dict(os.environ)
    os.environ["SLUICE_INSTANCE"] = name
    settings = Settings()
    # What is brought up here can be killed at a named point: sluice.statistics.faults.
    os.environ["SLUICE_FAULTS"] = str(settings.home / "faults")
    # Nobody waits for an archive file to grow old.
    os.environ["SLUICE_ARCHIVE__MAX_AGE_SECONDS"] = "2"
    say = announcer(request)
    ours = not supervisor.running(settings)
    if ours:
        shutdown.down(settings, say)
        if name == TEST_INSTANCE and settings.home.exists():
            shutil.rmtree(settings.home)
    if ours or any(entry.check(settings, daemon) for daemon in DAEMONS):
        bringup.up(settings, say)
    get_settings.cache_clear()
    settings = get_settings()
    os.environ.update(environment(settings))  # Spark sessions in this very process
    yield settings
    if ours:
        shutdown.down(settings, say)
    os.environ.clear()
    os.environ.update(before)
    get_settings.cache_clear()


def announcer(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Writes to the terminal past pytest's capture, so that a bring-up of a minute is seen."""
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            if reporter is not None:
                reporter.write_line(f"    {text}")

    return say
