"""Kafka and PostgreSQL start again when hosts come or go: their listeners are fixed while they run."""

from __future__ import annotations

import time
from collections.abc import Callable

from sluice.runtime.settings import Settings
from sluice.stack import entry, supervisord
from sluice.stack.daemons import kafka, postgres

HEALTHY_SECONDS = 240.0
_POLL = 0.5
#: What says that a daemon began with other listeners, by the daemon, and its name for people.
_DAEMONS = {"kafka": ("Kafka", kafka.outdated), "postgres": ("PostgreSQL", postgres.outdated)}


class DaemonNotBack(RuntimeError):
    """A daemon does not become healthy again."""


def start_again(settings: Settings, say: Callable[[str], None]) -> None:
    """Start those again whose listeners change, and wait until they are healthy.

    Lines wait in the collectors' channels meanwhile, and whoever writes to PostgreSQL tries again. Raises
    DaemonNotBack.
    """
    for name, (title, outdated) in _DAEMONS.items():
        if name in settings.external or not outdated(settings):
            continue
        if not supervisord.running(settings):
            say(f"{title}'s listeners change: if it runs, start it again")
            continue
        say(f"{title} starts again, because its listeners change")
        supervisord.stop_program(settings, name)
        supervisord.start_program(settings, name)
        _await(settings, name)


def _await(settings: Settings, name: str) -> None:
    title, outdated = _DAEMONS[name]
    deadline = time.monotonic() + HEALTHY_SECONDS
    # The file shows that the new process has begun: until then the old one may answer.
    while outdated(settings) or (problem := entry.check(settings, name)) is not None:
        if time.monotonic() > deadline:
            why = "it does not start" if outdated(settings) else problem
            raise DaemonNotBack(
                f"{title} is not healthy after {HEALTHY_SECONDS:g} s ({why}): sluice logs {name}"
            )
        time.sleep(_POLL)
