"""An instance of the last release is upgraded while lines come: each counts once, and all goes on.

A clone of this repository is brought to the release and then to HEAD, as docs/runbook.md says under Upgrade.
So what is not committed is not tested. Afterwards the release refuses the instance.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime.settings import ROOT, Settings
from sluice.stack import shutdown
from sluice_lab.access_lines import access_lines
from sluice_lab.draining import DRAIN_SECONDS
from sluice_lab.waiting import until
from tests.e2e.beside import NAME, InstanceBeside, counted
from tests.e2e.checkout import Checkout, NoRelease, cloned, head, released
from tests.e2e.running import TIMEOUT_SECONDS, TOPIC
from tests.repeated import repeated

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(TIMEOUT_SECONDS)]

#: One is published by the release. The other gets lines before, during and after the upgrade.
FIRST, SECOND = dt.date(2024, 9, 2), dt.date(2024, 9, 3)
FIRST_LINES, PIECE = 400, 20  # PIECE: at a time
#: Between them they have every metric and every filter, and one is routed.
TASKS = "include/examples/twelve_tasks.yaml"
LISTS = "include/examples/lists.yaml"
SHOWN = ("hits_by_status", "sizes_per_class", "clients_per_method")
DEAD = "no access log's line"
#: Airflow's run of the first day's night.
RUN = f"backfill__{SECOND}T00:00:00+00:00"


@dataclass
class Upgrade:
    """The instance that is upgraded, its checkout, and what was written."""

    checkout: Checkout
    instance: InstanceBeside
    version: str
    old: str
    new: str
    written: list[str] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self.begun:6.1f} s  {what}", flush=True)

    def bring_to(self, commit: str) -> None:
        self.checkout.bring_to(commit)
        self.checkout.set_up()

    def apply(self, what: str, file: str) -> None:
        self.instance.done(what, "apply", "-f", str(self.checkout.folder / file))

    def tasks(self) -> dict[str, tuple[str, str]]:
        """Each task's id and version, and its state."""
        found = json.loads(self.instance.done("tasks", "list", "--format", "json"))
        return {task["task"]: (task["id"], task["state"]) for task in found}

    def published(self) -> dict[str, list[Any]]:
        """What users see of the first day's periods that are final."""
        times = ("--from", f"{FIRST}", "--to", f"{SECOND}")
        found = {
            task: json.loads(self.instance.done("results", task, *times, "--format", "json"))
            for task in SHOWN
        }
        final = {task: [row for row in rows if row["state"] == "final"] for task, rows in found.items()}
        assert all(final.values())
        return final


@pytest.fixture
def upgrade() -> Iterator[Upgrade]:
    """A clone that is set up at the release; in any case nothing of it runs, or is there, afterwards."""
    try:
        version, old = released(ROOT)
    except NoRelease as error:
        pytest.skip(f"{error}")
    new = head(ROOT)
    if new == old:
        pytest.skip(f"HEAD is {version}: there is nothing to upgrade to")
    folder = Path(tempfile.mkdtemp(prefix="sluice-upgrade-"))
    home = folder / "sluice" / "var" / NAME
    try:
        checkout = cloned(ROOT, folder / "sluice")
        environment = checkout.environment | {
            "SLUICE_NETWORK": "host",
            "SLUICE_ARCHIVE__MAX_AGE_SECONDS": "2",
        }
        instance = InstanceBeside(home, environment, checkout.python)
        made = Upgrade(checkout, instance, version, old, new)
        made.bring_to(old)
        yield made
    finally:
        try:
            abandon(home)
        finally:
            shutil.rmtree(folder)


def abandon(home: Path) -> None:
    """End at once what runs of the instance, with the code of here: the clone may be half set up."""
    if home.exists():
        shutdown.abandon(Settings(instance=NAME, home=home, network="host"))


@contextmanager
def lines_coming(upgrade: Upgrade) -> Iterator[None]:
    """Lines of SECOND are written as long as the block lasts."""
    lines = access_lines(SECOND, 100 * PIECE, seed=1)

    def write() -> None:
        at = len(upgrade.written) % len(lines)
        upgrade.instance.write(SECOND, lines[at : at + PIECE])
        upgrade.written += lines[at : at + PIECE]

    with repeated(write, 1.0):
        yield


def use_the_release(upgrade: Upgrade) -> None:
    """Have tasks, a day that is published, and a dead letter."""
    instance = upgrade.instance
    instance.done("up")
    upgrade.say("the release is up")
    upgrade.apply("lists", LISTS)
    upgrade.apply("tasks", TASKS)
    lines = access_lines(FIRST, FIRST_LINES)
    instance.write(FIRST, [*lines, DEAD])
    until(lambda: instance.hits(FIRST) == counted(lines), DRAIN_SECONDS, "the first day's lines count", 2)
    assert f"{FIRST} {TOPIC}: agrees" in instance.done("nightly", "--from", f"{FIRST}", "--to", f"{FIRST}")
    upgrade.say("the release has published a day")


def all_count(upgrade: Upgrade) -> None:
    """Each line counts once in both layers."""
    instance, wanted = upgrade.instance, counted(upgrade.written)
    until(lambda: instance.hits(SECOND) == wanted, DRAIN_SECONDS, lambda: f"{instance.hits(SECOND)}", 2)
    upgrade.say(f"{len(upgrade.written)} lines of the second day count")
    night = instance.done("nightly", "--from", f"{FIRST}", "--to", f"{SECOND}")
    for day in (FIRST, SECOND):
        assert f"{day} {TOPIC}: agrees" in night
    assert instance.hits(SECOND) == wanted
    upgrade.say("both days are computed, agree and are published")
    hops = json.loads(instance.done("audit", "--format", "json"))
    lines = len(upgrade.written) + FIRST_LINES + 1
    assert (hops["counts"]["lines_read"], hops["counts"]["lost"]) == (lines, 0)
    assert (hops["in_flight"], hops["disagreements"]) == ([], [])
    assert hops["counts"]["doubled"] < FIRST_LINES  # the edges read on where they were
    instance.done("archive", "verify", TOPIC, "--deep")
    assert json.loads(instance.done("status", "--json"))["alerts"] == []


def refused(upgrade: Upgrade) -> None:
    """The release says what to do, starts nothing and changes nothing."""
    instance = upgrade.instance
    abandon(instance.home)
    upgrade.checkout.bring_to(upgrade.old)
    before = files(instance.home)
    for command in ("up", "status", "down"):
        said = instance.refused(command)
        assert f"Instance {NAME} was upgraded" in said
        assert "Check the newer release out again" in said
    assert files(instance.home) == before


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Each file below, its size and when it was written."""
    found = {f"{path}": path.lstat() for path in folder.rglob("*")}
    return {name: (each.st_size, each.st_mtime_ns) for name, each in found.items()}


def test_a_living_instance_is_upgraded_under_lines(upgrade: Upgrade) -> None:
    instance = upgrade.instance
    upgrade.say(f"{upgrade.version} is set up")
    use_the_release(upgrade)
    with lines_coming(upgrade):
        until(
            lambda: sum(instance.hits(SECOND).values()) >= PIECE, DRAIN_SECONDS, "lines of the second day", 2
        )
        tasks, published = upgrade.tasks(), upgrade.published()
        rows = instance.done("sql", "SELECT count(*) FROM logs")
        instance.done("down")
        upgrade.say("the release is down")
        upgrade.bring_to(upgrade.new)
        upgrade.say("the new code is set up")
        instance.done("up")
        upgrade.say("the new code is up")
        assert upgrade.tasks() == tasks
        assert upgrade.published() == published
        assert instance.done("sql", "SELECT count(*) FROM logs") == rows
        assert RUN in instance.done("exec", "--", "airflow", "dags", "list-runs", "nightly_batch")
        before = len(upgrade.written)
        until(lambda: sum(instance.hits(SECOND).values()) > before, DRAIN_SECONDS, "lines of afterwards", 2)
    all_count(upgrade)
    assert upgrade.published() == published
    refused(upgrade)
