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
import sqlalchemy as sa

from sluice.settings import Settings, get_settings
from sluice.stack import shutdown, supervisor
from sluice.stack.environment import environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEST_INSTANCE = "test"
# How long an example takes is no property of what is tested.
hypothesis.settings.register_profile("sluice", deadline=None)
hypothesis.settings.load_profile("sluice")
BRINGING_UP = pytest.StashKey[subprocess.Popen[str]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests without daemons, then those with, then those that kill them."""
    items.sort(
        key=lambda item: (bool(item.get_closest_marker("e2e")), bool(item.get_closest_marker("stack")))
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """The stack comes up while the tests without daemons run."""
    wanted = any("stack" in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.option.collectonly and not supervisor.running(_settings()):
        session.config.stash[BRINGING_UP] = _bring_up()


def _name() -> str:
    """The instance that SLUICE_TEST_INSTANCE names, else ``test``."""
    return os.environ.get("SLUICE_TEST_INSTANCE") or TEST_INSTANCE


def _settings() -> Settings:
    return Settings(instance=_name())


def _variables() -> dict[str, str]:
    home = _settings().home
    return {
        "SLUICE_INSTANCE": _name(),
        # What is brought up here can be killed at a named point: sluice.statistics.faults.
        "SLUICE_FAULTS": str(home / "faults"),
        # The team's metrics, and one that fails: tests/e2e/failing_metrics.
        "SLUICE_METRICS__PATH": str(home / "metrics"),
        # Nobody waits for an archive file to grow old.
        "SLUICE_ARCHIVE__MAX_AGE_SECONDS": "2",
    }


def _bring_up() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.bring_up", _name()]
    if _name() == TEST_INSTANCE:
        command.append("--empty")
    return subprocess.Popen(
        command,
        env={**os.environ, **_variables()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=_settings().root,
    )


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """The settings of a running instance."""
    before = dict(os.environ)
    say = announcer(request.config)
    bringing_up = request.config.stash.get(BRINGING_UP, None) or _bring_up()
    assert bringing_up.stdout is not None
    said = []
    for line in bringing_up.stdout:
        said.append(line)
        say(line.rstrip())
    if bringing_up.wait() != 0:
        raise RuntimeError("the stack did not come up:\n" + "".join(said[-30:]))
    os.environ.update(_variables())
    get_settings.cache_clear()
    settings = get_settings()
    os.environ.update(environment(settings))  # Spark sessions in this very process
    yield settings
    os.environ.clear()
    os.environ.update(before)
    get_settings.cache_clear()


@pytest.fixture(autouse=True)
def _no_task_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """A task that a test made is deleted at its end, or the platform would look for its topic for ever."""
    if "stack" not in request.fixturenames or request.node.get_closest_marker("e2e"):
        yield
        return
    from sluice.storage.postgres import engine
    from sluice.storage.schema import tasks

    database = engine(request.getfixturevalue("stack"))
    with database.connect() as connection:
        newest = connection.scalar(sa.select(sa.func.max(tasks.c.id))) or 0
    yield
    with database.begin() as connection:
        new = (tasks.c.id > newest) & tasks.c.deleted_at.is_(None)
        connection.execute(sa.update(tasks).where(new).values(deleted_at=sa.func.now()))


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


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What this run brought up is stopped, also where no test ever came to ask for it."""
    bringing_up = session.config.stash.get(BRINGING_UP, None)
    if bringing_up is not None:
        if bringing_up.poll() is None:
            bringing_up.terminate()
            bringing_up.communicate()
        shutdown.down(_settings(), announcer(session.config))


def announcer(config: pytest.Config) -> Callable[[str], None]:
    """Writes to the terminal past pytest's capture, so that a bring-up of a minute is seen."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            if reporter is not None:
                reporter.write_line(f"    {text}")

    return say
