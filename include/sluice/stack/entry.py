"""The entry point of every daemon, natively and in containers: wait, prepare, become it.

Since each daemon waits for those it depends on, all can be started, or killed and restarted, at the same
time. Daemons that share a container are kept by a supervisor of their own: the end of one does not end the
others, nor the jobs and agents that they started.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sluice.runtime.middle_damage import MiddleDamage
from sluice.runtime.parent import end_with_parent
from sluice.runtime.settings import Settings
from sluice.stack import disks, process_groups, secrets, templating
from sluice.stack.catalogue import DAEMONS, UnknownDaemon, daemon, dependencies
from sluice.stack.daemons.postgres import DatabaseLost, PostgresFailed
from sluice.stack.database_roles import UnusableRole
from sluice.stack.environment import DAEMON, own_environment
from sluice.stack.jars import JarsMissing
from sluice.stack.log import DaemonLog, lack_of_memory
from sluice.stack.networking import network
from sluice.stack.tls import BadCertificate

POLL_SECONDS = 0.5
REPORT_SECONDS = 15.0
#: Why a daemon is not started, each with a message for whoever is to change that.
REFUSALS = (
    UnknownDaemon,
    JarsMissing,
    UnusableRole,
    PostgresFailed,
    DatabaseLost,
    BadCertificate,
    MiddleDamage,
)
PROBLEM_LETTERS = 200  # some clients put pages of stack trace into their messages


def run(settings: Settings, name: str) -> None:
    """Become the daemon; does not return."""
    chosen = daemon(name)
    log = DaemonLog(name)
    secrets.make_missing(settings)
    secrets.add_given(settings)
    settings = Settings()
    left = process_groups.of_daemon(settings, name)
    if left:
        log(f"stopping {len(left)} processes that a former {name} left behind")
        process_groups.stop(left)
    for dependency in dependencies(settings, chosen):
        wait(settings, dependency, log)
    wait_for_space(settings, name, log)
    for step in chosen.prepare:
        log(f"{step.__name__.replace('_', ' ')}")
        step(settings)
    command = chosen.command(settings)
    log(f"starting {Path(command.argv[0]).name}")
    variables = {**own_environment(settings), **command.env, DAEMON: process_groups.mark(settings, name)}
    for variable in command.unset:
        variables.pop(variable, None)
    work = settings.home / "tmp"
    work.mkdir(parents=True, exist_ok=True)
    os.chdir(work)  # Derby, core dumps and the like must not land in the checkout
    end_with_parent()
    process_groups.remember(settings, name)
    os.execvpe(command.argv[0], command.argv, variables)  # noqa: S606


def keep(settings: Settings, names: Sequence[str]) -> None:
    """Become a supervisor of these daemons, which restarts each that ends; does not return."""
    chosen = [daemon(name) for name in names]
    target = settings.home / "conf" / f"{'+'.join(names)}.supervisord.conf"
    path = templating.write(
        settings, "supervisord_container.conf", target, daemons=chosen, python=sys.executable
    )
    secrets.add_given(settings)
    argv = [sys.executable, "-P", "-m", "supervisor.supervisord", "-c", str(path)]
    os.execve(argv[0], argv, own_environment(settings))  # noqa: S606


def wait(settings: Settings, name: str, log: DaemonLog) -> None:
    """Return once the daemon is healthy, however long it takes; log every 15 s what it lacks."""
    reported = time.monotonic()
    log(f"waiting for {name}")
    while (problem := check(settings, name)) is not None:
        if time.monotonic() - reported > REPORT_SECONDS:
            log(f"still waiting for {name}: {problem}")
            reported = time.monotonic()
        time.sleep(POLL_SECONDS)


def wait_for_space(settings: Settings, name: str, log: DaemonLog) -> None:
    """Return once no disk is full that the daemon needs: on a full one it would end at its start."""
    said = False
    while short := disks.lacking(settings, daemon(name), *map(daemon, dependencies(settings, daemon(name)))):
        if not said:
            log(f"waiting for space: {', '.join(map(str, short))}")
        said = True
        time.sleep(POLL_SECONDS)


def check(settings: Settings, name: str) -> str | None:
    """What is wrong with the daemon; None when it is healthy."""
    try:
        DAEMONS[name].health(settings)
    except Exception as error:
        # A half-started daemon can make a client library raise anything; then it is not healthy.
        problem = " ".join(str(error).split())[:PROBLEM_LETTERS] or type(error).__name__
        lack = lack_of_memory(settings, name)
        return f"{problem} (it ran out of memory: {lack})" if lack else problem
    return None


def main(argv: list[str]) -> int:
    """Run ``run NAME...``, ``health NAME...`` or ``jars``; returns the exit code."""
    try:
        return _main(argv)
    except REFUSALS as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _main(argv: list[str]) -> int:
    match argv:
        case ["run", name]:
            with contextlib.suppress(KeyboardInterrupt):
                run(Settings(), name)
            return 0
        case ["run", _, _, *_]:
            keep(Settings(), argv[1:])
            return 0
        case ["health", _, *_]:
            names = [daemon(name).name for name in argv[1:]]
            network.enter(Settings())
            problems = {name: check(Settings(), name) for name in names}
            for name, problem in problems.items():
                sys.stdout.write(f"{name}: {problem or 'healthy'}\n")
            return 1 if any(problems.values()) else 0
        case ["jars"]:
            from sluice.stack.jars import resolve

            resolved = resolve()
            sys.stdout.write(f"jars: {', '.join(resolved) or 'nothing to do'}\n")
            return 0
        case _:
            usage = "usage: python -m sluice.stack run|health NAME... | jars"
            sys.stderr.write(f"{usage}\nnames: {', '.join(DAEMONS)}\n")
            return 2
