"""What the stack knows about one daemon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sluice.runtime.settings import Settings


class Unhealthy(RuntimeError):
    """A daemon does not answer as a working one would; the message says what came instead."""


@dataclass(frozen=True)
class Command:
    """The command that replaces the entry point, and its changes to the environment."""

    argv: list[str]
    env: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()


@dataclass(frozen=True)
class Daemon:
    """One daemon, as the supervisor, the compose file, ``sluice status`` and the tests know it.

    ``service``: the service that it belongs to; ``--external`` takes these names.
    ``depends_on``: the daemons whose health is waited for before ``prepare``.
    ``prepare``: repeatable steps, such as to render configuration, format a store or create a database.
    ``ports``: names in settings.port_offsets; the first is shown in ``sluice status``.
    ``health``: returns when the daemon works, raises when it does not. It speaks the daemon's own protocol.
    ``for_clients``: whether its health can be checked when the service is external.
    ``for_good``: a problem that its health names and that no waiting ends: a part of the process is gone.
    ``after_full``: why it is started again once its disk was full and has space; empty: that is not needed.
    ``data``: directories below the instance's that outlive the daemon; a container has a volume for each.
    """

    name: str
    service: str
    command: Callable[[Settings], Command]
    health: Callable[[Settings], None]
    ports: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    prepare: tuple[Callable[[Settings], None], ...] = ()
    for_clients: bool = True
    for_good: str = ""
    after_full: str = ""
    data: tuple[str, ...] = ()
    stop_signal: str = "TERM"
    stop_seconds: int = 30
