"""What the demo does before it counts: a new instance, its tasks, its agents, the log."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.cli.demo.problems import DemoError, look
from sluice.cli.output.phases import Say

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings
    from sluice.stack.airflow.rest_api import Airflow

GENERATED_LINES = 10_000
#: The tasks that the demo counts: together they use every metric, extraction and filter.
EXAMPLES = Path("include", "examples")
TASKS, LISTS = "tasks.yaml", "lists.yaml"

#: Writing the log takes this time, or longer if it must: there must be several batches, because plans are
#: made between them.
REPLAY_SECONDS = 10.0
FOR_EVER = ("collection", "speed_layer", "archive")
DEPLOY_SECONDS = 480.0  # the first copy of the jars to each host is a part of it
POLL_SECONDS = 1.0


def clear(settings: Settings, say: Say) -> None:
    """Kill what runs of the former demo and delete its directory; the shared jars stay."""
    from sluice.stack import shutdown

    if not settings.home.exists():
        say("there was none")
        return
    shutdown.abandon(settings)
    shutil.rmtree(settings.home)
    say(f"deleted {settings.home.relative_to(settings.root)}")


def start(settings: Settings, say: Say) -> Settings:
    """Bring every daemon up; return the settings with the secrets that this made."""
    from sluice.cli import instance
    from sluice.runtime.settings import get_settings

    instance.up(settings, lambda text: say(text.strip()))
    (settings.root / "var" / "current").write_text(settings.instance)
    get_settings.cache_clear()
    say("all daemons are healthy")
    return get_settings()


def apply_tasks(settings: Settings, say: Say) -> None:
    """Apply the example tasks and their value lists, beside the tasks of a new platform."""
    from sluice.storage.postgres import engine
    from sluice.tasks import parse_tasks
    from sluice.tasks.lists import ValueLists, parse_lists
    from sluice.tasks.store import TaskStore

    directory, user = settings.root / EXAMPLES, "sluice demo"
    lists = parse_lists((directory / LISTS).read_text())
    specs = parse_tasks((directory / TASKS).read_text())
    ValueLists(engine(settings)).apply_all(lists, user)
    store = TaskStore(engine(settings))
    store.apply(specs, user)
    tasks = store.list()
    metrics = {name for task in tasks for name in task.spec.metrics}
    say(f"{len(tasks)} tasks, {len(metrics)} metrics, {len(lists)} value lists")


def deploy(settings: Settings, airflow: Airflow, say: Say) -> None:
    """Wait until Airflow runs the three DAGs that run for ever, and what they start answers."""
    deadline = time.monotonic() + DEPLOY_SECONDS
    while left := not_deployed(settings, airflow):
        if time.monotonic() > deadline:
            raise DemoError(
                f"{', '.join(left)} did not start within {DEPLOY_SECONDS:.0f} s: {look(settings)}"
            )
        say(f"waiting for {', '.join(left)}")
        time.sleep(POLL_SECONDS)
    say(f"{', '.join(FOR_EVER)} are running")


def not_deployed(settings: Settings, airflow: Airflow) -> list[str]:
    from sluice.collection import deploy as collection
    from sluice.stack.jobs import archiver_files, driver_files, position

    waiting = [f"DAG {dag}" for dag in FOR_EVER if not any(r.state == "running" for r in airflow.runs(dag))]
    if not collection.agents(settings) or not collection.drained(settings):
        waiting.append("Flume's agents")
    jobs = {"speed_layer": [*driver_files(settings)], "archiver": [*archiver_files(settings)]}
    return waiting + [
        job for job, members in jobs.items() if not any(position(settings, each) for each in members)
    ]


def replay_log(settings: Settings, log: Path | None, say: Say) -> None:
    from sluice.traffic import replay

    log, lines = the_log(settings, log)
    rate = lines / REPLAY_SECONDS
    done = replay.replay(settings, log, rate or None, progress=lambda lines, size: say(f"{lines:,} lines"))
    say(f"{done.lines:,} lines, {done.bytes:,} bytes, in {done.files} files")


def the_log(settings: Settings, log: Path | None) -> tuple[Path, int]:
    """The log to replay, which is generated if none is given, and the number of its lines."""
    from sluice.traffic import generate, replay

    if log is None:
        log = settings.home / "tmp" / "generated.log"
        generate.write(log, GENERATED_LINES)
    return log, sum(1 for _ in replay.read_lines(log, most=settings.limits.unpacked_log_bytes))
