"""What is asked of a kind of unit; nothing else in this package knows what a unit does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sluice.runtime.settings import Settings
from sluice_hosts.hosts import Role

Log = Callable[[str], None]


class MovedMeanwhile(RuntimeError):
    """Somebody else moved the unit to another host while it was on its way."""


@dataclass(frozen=True)
class Running:
    """A unit, and the host on which it runs.

    movable: the placement chooses its host, among those with the role; another one is fixed. group,
    application: as in `placement.base`.
    """

    name: str  # with its kind: collector:collector1
    host: str
    slots: int = 1
    movable: bool = False
    group: str | None = None
    application: str | None = None
    role: Role = "collector"

    @property
    def kind(self) -> str:
        return self.name.partition(":")[0]


@dataclass(frozen=True)
class ObservedUnit:
    """One look at a unit: its process's number on its host, and its counters if it told them.

    events: what it took in since its process began, in blocks of lines, say. fill: of its channel, per cent.
    """

    pid: int
    events: float | None = None
    fill: float | None = None


#: Looks at the unit of a name; None if it does not run. Raises HostUnreachable, AgentError.
Observer = Callable[[str], ObservedUnit | None]


class Kind(Protocol):
    """One kind of unit."""

    name: str

    def units(self, settings: Settings, places: int) -> list[Running]:
        """All units of the kind. places: how many hosts may have collectors, on which groups depend."""

    def observer(self, settings: Settings) -> Observer:
        """What looks at the units that there are now."""

    def belong(self, settings: Settings, hosts: Mapping[str, str]) -> None:
        """Record where units are to be whose hosts may have them no more, before the first of them moves."""

    def written(self, settings: Settings) -> Mapping[str, str]:
        """The host recorded for each unit, by the unit's name; units without one are left out."""

    def move(self, settings: Settings, unit: str, host: str, log: Log) -> None:
        """Bring the unit to the host. It may be repeated, also with another host, after any failure.

        Raises MovedMeanwhile, and whatever else may go wrong.
        """
