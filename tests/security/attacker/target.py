"""What the attacker is told: what a user of the machine could find out, or guess, by trying longer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """An instance, as it is given on stdin.

    ports: by the names of settings.yaml. block: the first port of the instance and how many follow.
    pids: its processes. inodes: its sockets, which tell its sockets in /proc/net from other programs'.
    routes: method and path of every page of Airflow and of Sluice's API. since: when it was started, in
    seconds since 1970. topic: where to send a record. user: the platform's own; people: others that exist.
    """

    ports: dict[str, int]
    block: tuple[int, int]
    home: Path
    pids: list[int]
    inodes: frozenset[int]
    routes: list[tuple[str, str]]
    since: float
    topic: str = "logs"
    user: str = "sluice"
    people: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, given: dict) -> Target:
        return cls(
            **{
                **given,
                "home": Path(given["home"]),
                "block": tuple(given["block"]),
                "inodes": frozenset(given["inodes"]),
                "routes": [(method, path) for method, path in given["routes"]],
            }
        )

    def name(self, port: int) -> str:
        """The door of that port; a port that has no name is its offset."""
        names = {number: name for name, number in self.ports.items()}
        if port in names:
            return names[port]
        if self.ports["flume"] <= port <= sum(self.block):  # the agents' ports are its end
            return "flume"
        return f"port {port}"
