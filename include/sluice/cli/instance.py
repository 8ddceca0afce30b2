"""Bring an instance up and down: its daemons, its agents and its first tasks.

The code that runs the daemons knows neither agents nor tasks; this module brings them together.
``python -m sluice.cli.instance`` fills daemons that something else started, such as containers.
"""

from __future__ import annotations

from collections.abc import Callable

from sluice.runtime.settings import Settings
from sluice.stack import bringup, entry, releases, shutdown, supervisord
from sluice.stack.initialise import STEPS, Step
from sluice.stack.log import DaemonLog

Say = Callable[[str], None]


def up(settings: Settings, say: Say) -> None:
    """Start the instance and wait until it is healthy and filled.

    ``say`` gets a line for each step. A database of another release is refused: then what was started here is
    stopped again, before a job of this release meets it. Raises RestoreUnfinished or RecoveryUnfinished for
    one that is half there, DatabaseLost for one without its PostgreSQL, OtherReleaseRuns for one that another
    release keeps running.
    """
    from sluice.backup.contents import require_whole
    from sluice.storage.postgres import SchemaRefused

    require_whole(settings)
    if ran := supervisord.running(settings):
        releases.require_own(settings)
    try:
        bringup.up(settings, say, ALL_STEPS)
    except SchemaRefused:
        if not ran:
            down(bringup.reread(settings), say)
        raise
    if text := outdated(bringup.reread(settings)):
        say(text)


def down(settings: Settings, say: Say) -> bool:
    """Stop all of the instance but keep its data; return whether there was anything to stop."""
    return shutdown.down(settings, say, stop_agents)


def fill(settings: Settings, log: DaemonLog) -> None:
    """Run each step as soon as the daemons that it talks to are healthy."""
    for step, needs in ALL_STEPS:
        for name in needs:
            entry.wait(settings, name, log)
        step(settings)


def stop_agents(settings: Settings, say: Say) -> None:
    """Stop Flume's agents if one is alive: first the edges, drained, then the collectors."""
    from sluice.collection import deploy, lifecycle
    from sluice.collection.hosting import hosting, machine_of

    agents = [*deploy.agents(settings), *hosting().left_behind(settings)]
    if any(not machine_of(settings, a).ours or lifecycle.alive(settings, a) for a in agents):
        deploy.stop_all(settings, log=say)


def outdated(settings: Settings) -> str:
    """What to tell the person whose first tasks still cut lines at blanks; empty if none does."""
    from sluice.metrics import load_team
    from sluice.storage.postgres import engine
    from sluice.tasks.first_tasks import advice, cut_at_blanks
    from sluice.tasks.store import TaskStore
    from sluice.tasks.topics import TopicStore

    load_team()
    database = engine(settings)
    names = cut_at_blanks(TaskStore(database), TopicStore(database), settings.root)
    return f"\n{advice(names)}" if names else ""


def tasks(settings: Settings) -> None:
    """Put the tasks of include/tasks.yaml into a new store; later the store is the user's."""
    from sluice.metrics import load_team
    from sluice.storage.postgres import engine
    from sluice.tasks.first_tasks import first_tasks
    from sluice.tasks.store import TaskStore

    load_team()
    store = TaskStore(engine(settings))
    if store.is_new():
        store.apply(first_tasks(settings.root), "sluice")


ALL_STEPS: tuple[Step, ...] = (*STEPS, (tasks, ("postgres",)))


if __name__ == "__main__":
    fill(Settings(), DaemonLog("initialise"))
