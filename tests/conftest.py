"""The running stack, for the tests that need it, and the order of the tests: quick ones first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import hypothesis
import pytest

from sluice.settings import ROOT, Settings, get_settings
from sluice.stack import shutdown, supervisor
from sluice.stack.environment import environment
from tests.bring_up import instance_settings, variables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes is no property of what is tested.
hypothesis.settings.register_profile("sluice", deadline=None)
hypothesis.settings.load_profile("sluice")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests without daemons, then those with, then those that kill them."""
    items.sort(
        key=lambda item: (bool(item.get_closest_marker("e2e")), bool(item.get_closest_marker("stack")))
    )


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """The settings of a running instance, brought up if it does not run (and then stopped at the end)."""
    before = dict(os.environ)
    say = announcer(request.config)
    ours = not supervisor.running(instance_settings())
    bring_up(say)
    os.environ.update(variables(instance_settings()))
    get_settings.cache_clear()
    settings = get_settings()
    os.environ.update(environment(settings))  # Spark sessions in this very process
    yield settings
    os.environ.clear()
    os.environ.update(before)
    get_settings.cache_clear()
    if ours:
        shutdown.down(settings, say)


def bring_up(say: Callable[[str], None]) -> None:
    """In a process of its own: the daemons' environment is not the tests'."""
    command = [sys.executable, "-m", "tests.bring_up"]
    said = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    ) as bringing_up:
        assert bringing_up.stdout is not None
        for line in bringing_up.stdout:
            said.append(line)
            say(line.rstrip())
    if bringing_up.returncode != 0:
        raise RuntimeError("the stack did not come up:\n" + "".join(said[-30:]))


@pytest.fixture(scope="module")
def spark(stack: Settings) -> Iterator[SparkSession]:
    """A session as the batch layer's jobs have it, for the tests of a module: a start takes ten seconds."""
    from sluice.statistics.offline import SPARK_CONFIG
    from sluice.statistics.spark import session

    before = dict(os.environ)  # a session leaves its mark there for its Python workers
    made = session(stack, "sluice tests", config=SPARK_CONFIG)
    yield made
    made.stop()
    os.environ.clear()
    os.environ.update(before)


def announcer(config: pytest.Config) -> Callable[[str], None]:
    """Writes to the terminal past pytest's capture, so that a bring-up of a minute is seen."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            if reporter is not None:
                reporter.write_line(f"    {text}")

    return say
