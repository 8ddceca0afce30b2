"""What the stack knows of one daemon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sluice.runtime.settings import Settings


class Unhealthy(RuntimeError):
    """A daemon does not answer as a working one would; the message says what it said instead."""


@dataclass(frozen=True)
class Command:
    """What is executed in the place of the entry point, with what is added to the environment."""

    argv: list[str]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Daemon:
    """One daemon, as the supervisor, the compose file, ``sluice status`` and the tests know it.

    ``service``: what it belongs to, and what ``--external`` names.
    ``depends_on``: the daemons whose health is waited for before ``prepare``.
    ``prepare``: steps that may all be repeated: render configuration, format a store, create a database.
    ``ports``: names in settings.port_offsets; the first is shown in ``sluice status``.
    ``health``: returns when the daemon works, raises when it does not. It speaks the daemon's own protocol.
    ``for_clients``: whether its health can be asked where the service is somebody else's.
    ``data``: the directories below the instance's that outlive it: a container has a volume for each.
    """

    name: str
    service: str
    command: Callable[[Settings], Command]
    health: Callable[[Settings], None]
    ports: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    prepare: tuple[Callable[[Settings], None], ...] = ()
    for_clients: bool = True
    data: tuple[str, ...] = ()
    stop_signal: str = "TERM"
    stop_seconds: int = 30
