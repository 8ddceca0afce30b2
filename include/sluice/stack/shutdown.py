"""Stops an instance in order: Airflow, then the jobs, then the other daemons.

Each daemon is stopped before those that it depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import psutil

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack import catalogue, process_groups, supervisord
from sluice.stack.daemon import Daemon
from sluice.stack.networking import network

Say = Callable[[str], None]
#: Stops Flume's agents, which must end in an order of their own.
StopAgents = Callable[[Settings, Say], None]

JOB_GRACE_SECONDS = 15.0


def down(settings: Settings, say: Say, stop_agents: StopAgents) -> bool:
    """Stop the whole instance but keep its data; returns whether there was anything to stop."""
    running = supervisord.running(settings)
    if running:
        supervisord.stop_program(settings, "watch")
        # Airflow first, because it would restart the jobs that are stopped next.
        _stop_daemons(settings, _of_service("airflow"), say)
    jobs = stop_jobs(settings, say, stop_agents)
    if running:
        for level in reversed(levels()):
            _stop_daemons(settings, level, say)
        supervisord.stop(settings)
    network.close(settings)
    left = process_groups.of_daemon(settings)
    if left:
        say(f"stopping {len(left)} processes that a killed supervisor left behind")
        process_groups.stop(left)
    return bool(running or jobs or left)


def abandon(settings: Settings) -> None:
    """Kill the whole instance at once without draining; only for data that is deleted next."""
    if pid := supervisord.pid(settings):  # first, because it would restart what dies
        process_groups.kill([psutil.Process(pid)])
    postgres = process_groups.of_daemon(settings, "postgres")
    process_groups.kill([each for each in process_groups.of_daemon(settings) if each not in postgres])
    run = settings.home / "run"
    for name in detached.names(run):
        if record := detached.read(name, run):
            detached.stop(record, 0, run=run)
    network.close(settings)
    process_groups.stop(postgres)  # not killed, because its shared memory would outlive it


def stop_jobs(settings: Settings, say: Say, stop_agents: StopAgents) -> list[str]:
    """Stop the detached processes; returns the names of those that were alive.

    Flume's agents stop first (the edges drained), then the archiver, the speed layer and all others at once.
    """
    run = settings.home / "run"
    living = [name for name in detached.names(run) if detached.alive(detached.read(name, run))]
    stop_agents(settings, say)
    rest = [name for name in living if detached.alive(detached.read(name, run))]
    with ThreadPoolExecutor(max(len(rest), 1)) as pool:
        list(pool.map(lambda name: _stop_job(settings, name, say), rest))
    return living


def levels() -> list[list[Daemon]]:
    """The daemons in layers: each layer depends only on those before it."""
    depth: dict[str, int] = {}
    for daemon in catalogue.in_order():
        depth[daemon.name] = 1 + max((depth[name] for name in daemon.depends_on), default=-1)
    return [
        [daemon for daemon in catalogue.DAEMONS.values() if depth[daemon.name] == level]
        for level in range(max(depth.values()) + 1)
    ]


def _stop_job(settings: Settings, name: str, say: Say) -> None:
    record = detached.read(name, settings.home / "run")
    if record is not None and detached.stop(record, JOB_GRACE_SECONDS, run=settings.home / "run"):
        say(f"{name:<22} stopped")


def _stop_daemons(settings: Settings, daemons: Iterable[Daemon], say: Say) -> None:
    living = {name for name, p in supervisord.programs(settings).items() if p.state in supervisord.LIVING}
    names = [daemon.name for daemon in daemons if daemon.name in living]
    if not names:
        return
    with ThreadPoolExecutor(len(names)) as pool:
        for name, _ in zip(
            names, pool.map(lambda name: supervisord.stop_program(settings, name), names), strict=True
        ):
            say(f"{name:<22} stopped")


def _of_service(service: str) -> list[Daemon]:
    return [daemon for daemon in catalogue.DAEMONS.values() if daemon.service == service]
