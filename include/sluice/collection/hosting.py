"""The machines that there are. The core knows its own; several hosts are a package that joins the core.

It joins by an entry point of the group `sluice` with the name `agents`, which is a `Hosting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.collection.agent import LOCAL, Agent
from sluice.collection.errors import AgentError
from sluice.collection.local_machine import LocalMachine
from sluice.collection.machine import Machine
from sluice.runtime.joined import joined
from sluice.runtime.settings import Settings

if TYPE_CHECKING:
    from sluice.collection.deploy_plan import AgentChange
    from sluice.collection.inventory import Inventory
    from sluice.collection.render import Rendered

Log = Callable[[str], None]

_ALONE = "other hosts need the package sluice_hosts, which is not installed: install it, or say local"


class Hosting:
    """All runs on this machine. A subclass knows other machines, too."""

    def machine(self, settings: Settings, name: str) -> Machine:
        """The machine of that name. Raises AgentError if it is not known."""
        if name != LOCAL:
            raise AgentError(f"host {name!r}: {_ALONE}")
        return LocalMachine(settings)

    def placed(self, settings: Settings) -> Mapping[str, str]:
        """The machine of each collector whose inventory leaves it open, by its name. Raises HostListError."""
        return {}

    def problems(self, inventory: Inventory, settings: Settings) -> Iterator[str]:
        """What is wrong with the machines that the inventory names."""
        for i, front_end in enumerate(inventory.front_ends):
            if front_end.runs_on != LOCAL:
                yield f"front_ends.{i}.runs_on = {front_end.runs_on!r}: {_ALONE}"
        for i, collector in enumerate(inventory.collectors):
            if collector.runs_on != LOCAL:
                yield f"collectors.{i}.runs_on = {collector.runs_on!r}: {_ALONE}"

    def speaks_tls(self, inventory: Inventory, settings: Settings) -> bool:
        """Whether edges and collectors speak TLS, which they do between machines. Raises HostListError."""
        return False

    def addresses(self, settings: Settings, agent: Agent) -> str | None:
        """What an edge is told of where the collectors are; None if it needs no file of addresses."""
        return None

    def grant_rights(self, settings: Settings, log: Log) -> None:
        """Have Kafka know the users of other machines. A failure is only logged."""

    def prepare(self, settings: Settings, rendered: Rendered, log: Log) -> None:
        """Copy the new version of a collector that moves. Raises HostUnreachable, AgentError."""
        raise AgentError(_ALONE)

    def relocate(self, settings: Settings, old: Agent, change: AgentChange, log: Log) -> None:
        """Take a collector to the machine of the change. Raises HostUnreachable, AgentError."""
        raise AgentError(_ALONE)

    def left_behind(self, settings: Settings) -> Sequence[Agent]:
        """What moved collectors left on machines: to be drained and stopped."""
        return ()

    def overdue(self, settings: Settings) -> Sequence[Agent]:
        """Those of `left_behind` that have waited for long."""
        return ()

    def drain_left(self, settings: Settings, log: Log) -> None:
        """Drain and stop what is left behind; what cannot be drained now is tried again."""

    def files(self, settings: Settings) -> Sequence[Path]:
        """The files that the agents' configuration follows from, beside the inventory."""
        return ()

    def settings_files(self, settings: Settings) -> Sequence[Path]:
        """Those of the files that people write."""
        return ()

    def warnings(self, settings: Settings) -> Iterator[str]:
        """What the settings open to other machines, or keep from them. Raises HostListError."""
        yield from ()


def hosting() -> Hosting:
    """The machines that this installation knows."""
    found = joined("agents")
    return Hosting() if found is None else found


def machine_of(settings: Settings, agent: Agent) -> Machine:
    """The machine on which an agent runs, or is to run. Raises AgentError if it is not known."""
    return hosting().machine(settings, agent.runs_on)
