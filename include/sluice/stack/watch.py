"""Restarts running but sick daemons; ``jobs/watch.py`` runs it.

It runs under supervisord, which itself restarts a daemon that died. But a daemon can also run without
working: it hangs, or has lost a part that it needs. Here every daemon is asked for its health, in its own
protocol. It is restarted if it was healthy since its start, and was then sick `PATIENCE` times in a row while
all that it depends on was healthy; sooner where a part of it is gone for good. A daemon that never became
healthy is left alone: it still prepares, or another start would not help. While a disk that it needs is full,
another start would not help either; once there is space, it counts as one that was healthy; one that
remembers what it could not write is restarted. Where supervisord does not run, as in containers, the daemons
are only asked.

A daemon that ended at its start too often is given up by supervisord. It is started again here once a minute,
because what kept it from starting, such as a full disk, may be over.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn
from xmlrpc.client import Fault

from sqlalchemy.exc import SQLAlchemyError

from sluice.runtime.settings import Settings
from sluice.stack import catalogue, disks, notify, supervisord
from sluice.stack.daemon import Daemon
from sluice.stack.entry import check

SECONDS = 20.0
PATIENCE = 9  # three minutes: a machine can be busy for one
PATIENCE_FOR_GOOD = 2  # with what no waiting ends
GIVEN_UP_SECONDS = 60.0


@dataclass
class ProcessHealth:
    """What is known about a daemon's present process."""

    pid: int
    was_healthy: bool = False
    sick: int = 0


@dataclass
class DaemonWatch:
    """Watches an instance's own daemons; one that is sick for `patience` looks is restarted."""

    settings: Settings
    say: Callable[[str], None]
    patience: int = PATIENCE
    emptied: Callable[[], set[str]] = set  # the folders that have space again after their disk was full
    seen: dict[str, ProcessHealth] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)  # at the last look; empty for a healthy daemon

    def look(self) -> dict[str, str]:
        """Ask all daemons once; returns the problems of those to be restarted, by name."""
        programs = supervisord.programs(self.settings)
        running = [
            daemon
            for daemon in catalogue.own(self.settings)
            if daemon.name in programs and programs[daemon.name].state == "RUNNING"
        ]
        needs = {daemon.name: catalogue.dependencies(self.settings, daemon) for daemon in running}
        problems = ask(self.settings, {*needs, *(need for each in needs.values() for need in each)})
        self.problems = {name: problem or "" for name, problem in problems.items()}
        self.problems |= {
            daemon.name: "not running" for daemon in catalogue.own(self.settings) if daemon not in running
        }
        emptied = self.emptied()
        return {
            daemon.name: problems[daemon.name] or ""
            for daemon in running
            if self._is_lost(daemon, programs[daemon.name].pid, problems, needs[daemon.name])
        } | {
            daemon.name: daemon.after_full
            for daemon in running
            if daemon.after_full and not emptied.isdisjoint(daemon.data)
        }

    def _is_lost(
        self, daemon: Daemon, pid: int, problems: Mapping[str, str | None], needs: list[str]
    ) -> bool:
        seen = self.seen.get(daemon.name)
        if seen is None or seen.pid != pid:
            seen = self.seen[daemon.name] = ProcessHealth(pid)
        if problems[daemon.name] is None or disks.lacking(
            self.settings, daemon, *map(catalogue.daemon, needs)
        ):
            seen.was_healthy, seen.sick = True, 0
        elif seen.was_healthy and not any(problems[need] for need in needs):
            seen.sick += 1
        else:
            seen.sick = 0  # it may become healthy once the daemon that it depends on is
        for_good = daemon.for_good and problems[daemon.name] == daemon.for_good
        return seen.sick >= (PATIENCE_FOR_GOOD if for_good else self.patience)

    def round(self) -> dict[str, str]:
        """Restart what has to be; returns the problems of all daemons."""
        for name, problem in self.look().items():
            self.restart(name, problem)
        for name in self.given_up():
            self.say(f"{name} was given up, and is started again")
            with suppress(Fault):  # it could not even be begun: it is tried again
                supervisord.start_program(self.settings, name)
        return dict(self.problems)

    def given_up(self) -> list[str]:
        """The daemons that supervisord has not tried to start for a while, and will not by itself."""
        programs = supervisord.programs(self.settings).values()
        now = time.time()
        return [
            each.name for each in programs if each.state == "FATAL" and now - each.ended > GIVEN_UP_SECONDS
        ]

    def only_look(self) -> dict[str, str]:
        """The problems of all daemons, wherever they run."""
        found = ask(self.settings, [daemon.name for daemon in catalogue.own(self.settings)])
        return {name: problem or "" for name, problem in found.items()}

    def restart(self, name: str, problem: str) -> None:
        self.say(f"{name} runs but is unhealthy: {problem}. It is restarted")
        supervisord.stop_program(self.settings, name)
        supervisord.start_program(self.settings, name)


def ask(settings: Settings, names: Iterable[str]) -> dict[str, str | None]:
    """The problems of these daemons, asked at the same time; None for a healthy one."""
    asked = list(names)
    with ThreadPoolExecutor(len(asked) or 1) as pool:
        return dict(zip(asked, pool.map(lambda name: check(settings, name), asked), strict=True))


def run(
    settings: Settings,
    say: Callable[[str], None],
    looked: Callable[[Mapping[str, str]], None],
    *,
    emptied: Callable[[], set[str]] = set,
    restarts: bool = True,
) -> NoReturn:
    """Watch for ever, or until the supervisor ends.

    looked: is given the daemons' problems after each look. emptied: as in `DaemonWatch`. restarts: restart
    sick daemons by supervisord.
    """
    watch = DaemonWatch(settings, say, emptied=emptied)
    while True:
        time.sleep(SECONDS)
        try:
            looked(watch.round() if restarts else watch.only_look())
            if not settings.notifications.given:
                notify.forget(settings)
        except supervisord.SupervisorDown as down:
            sys.exit(str(down))
        except SQLAlchemyError as error:  # PostgreSQL may be restarting; the events wait in it
            say(f"alerts cannot be read: {str(error).splitlines()[0]}")
