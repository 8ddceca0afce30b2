"""The running stack for the tests that need it, and the order of the tests."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tests.examples
import tests.inside  # noqa: F401 (enters the network)
from sluice.metrics import load_team
from sluice.runtime import garbage, passwords
from sluice.runtime.settings import ROOT, Settings, get_settings
from sluice.stack import supervisord
from sluice.stack.environment import environment
from sluice.stack.networking import network
from tests.bring_up import instance_settings, take_down, variables
from tests.marked import left_out, refused, whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

load_team()

TESTS = Path(__file__).parent
#: The packages whose tests on the stack take the longest.
LAYERS = ("speed", "batch", "state", "spark")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file, or the files of a folder, of which `-m` chooses no test."""
    names = refused(config.getoption("markexpr"))
    return True if names and names & whole(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests: those without daemons, those that use them, those that kill them.

    Of the first kind the slow ones come first, of the second the two layers: they take the longest, and no
    process that shares the tests with others should wait for them at the end. In the third kind the tests
    that kill a single daemon come first, because a process that has died often is not restarted at once.
    """

    def place(item: pytest.Item) -> tuple[bool, bool, bool]:
        kills, uses = (item.get_closest_marker(name) is not None for name in ("e2e", "stack"))
        if kills:
            return True, not uses, False
        package = item.path.relative_to(TESTS).parts[0]
        return False, uses, package not in LAYERS if uses else item.get_closest_marker("slow") is None

    items.sort(key=place)
    if missed := left_out(items, TESTS):
        raise pytest.UsageError(f"{', '.join(missed)}: write the mark where tests/marked.py finds it")


def pytest_collection_finish() -> None:
    """Modules are most of what there is, and stay."""
    garbage.loaded()


@pytest.fixture
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords at once, for tests of what is done with them: a real hash takes 0.2 s on purpose."""

    def hashed(password: str, salt: bytes, rounds: int) -> bytes:
        return hashlib.sha256(b"%d %b %b" % (rounds, salt, password.encode(errors="surrogatepass"))).digest()

    monkeypatch.setattr(passwords, "_hash", hashed)


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """The settings of a running instance; one that has to be brought up is stopped at the end."""
    before = dict(os.environ)
    say = announcer(request.config)
    ours = not supervisord.running(instance_settings())
    bring_up(say)
    network.enter(instance_settings())
    os.environ.update(variables(instance_settings()))
    get_settings.cache_clear()
    settings = get_settings()
    os.environ.update(environment(settings))  # Spark sessions in this very process
    yield settings
    os.environ.clear()
    os.environ.update(before)
    get_settings.cache_clear()
    if ours:
        take_down(settings)


def bring_up(say: Callable[[str], None]) -> None:
    """Bring the stack up in a process of its own: the daemons' environment is not the tests'."""
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


@pytest.fixture(scope="session")
def spark(stack: Settings) -> Iterator[SparkSession]:
    """A session like the batch layer's, one for each process because a start takes ten seconds."""
    from sluice.batch.offline import SPARK_CONFIG
    from sluice.spark.session import session

    before = dict(os.environ)
    made = session(stack, "sluice tests", config=SPARK_CONFIG)
    # Its JVM has what the session left there for its Python workers; other tests shall not.
    os.environ.clear()
    os.environ.update(before)
    yield made
    made.stop()


def announcer(config: pytest.Config) -> Callable[[str], None]:
    """A function that writes past pytest's capture, so that a bring-up of a minute is seen."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            if reporter is not None:
                reporter.write_line(f"    {text}")

    return say
