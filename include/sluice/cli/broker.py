"""The broker starts again when hosts with collectors come or go: its listeners are fixed while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from sluice.runtime.settings import Settings
from sluice.stack import entry, supervisord
from sluice.stack.daemons import kafka

HEALTHY_SECONDS = 240.0
_POLL = 0.5


class BrokerNotBack(RuntimeError):
    """Kafka does not become healthy again."""


def start_again(settings: Settings, say: Callable[[str], None]) -> None:
    """Start Kafka again if its listeners change, and wait until it is healthy.

    Lines wait in the collectors' channels meanwhile. Raises BrokerNotBack.
    """
    if "kafka" in settings.external or not kafka.outdated(settings):
        return
    if not supervisord.running(settings):
        say("Kafka's listeners change: if it runs, start it again")
        return
    say("Kafka starts again, because its listeners change")
    supervisord.stop_program(settings, "kafka")
    supervisord.start_program(settings, "kafka")
    deadline = time.monotonic() + HEALTHY_SECONDS
    # The file shows that the new process has begun: until then the old one may answer.
    while kafka.outdated(settings) or (problem := entry.check(settings, "kafka")) is not None:
        if time.monotonic() > deadline:
            why = "it does not start" if kafka.outdated(settings) else problem
            raise BrokerNotBack(
                f"Kafka is not healthy after {HEALTHY_SECONDS:g} s ({why}): sluice logs kafka"
            )
        time.sleep(_POLL)
