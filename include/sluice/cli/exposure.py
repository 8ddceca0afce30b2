"""What the settings open to other hosts, or keep from them, said at the terminal."""

from __future__ import annotations

from sluice.cli.terminal import alarm
from sluice.runtime.settings import Settings


def warn(settings: Settings) -> None:
    """Say it on standard error. A list of hosts that cannot be used is said by whoever needs it."""
    from sluice.collection import exposure
    from sluice.collection.hosts import HostsError

    try:
        found = list(exposure.warnings(settings))
    except HostsError:
        return
    for each in found:
        alarm(f"WARNING: {each}")
