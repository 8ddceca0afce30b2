"""What the settings open to other hosts, or keep from them, said at the terminal."""

from __future__ import annotations

from sluice.cli.output.terminal import alarm
from sluice.runtime.settings import Settings


def warn(settings: Settings) -> None:
    """Say it on standard error. A list of hosts that cannot be used is said by whoever needs it."""
    from sluice.collection.errors import HostListError
    from sluice.collection.hosting import hosting

    try:
        found = list(hosting().warnings(settings))
    except HostListError:
        return
    for each in found:
        alarm(f"WARNING: {each}")
