"""Answers AskedAssignor.java: our algorithm for groups on live brokers."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from sluice.assignment.assign import assign
from sluice.assignment.base import AssignedPartition, Group, Member
from sluice.assignment.cooperative import this_round
from sluice.assignment.smoothing import ObservedGroup

log = logging.getLogger(__name__)

_PATIENCE = 5.0


class AssignorServer:
    """A loopback port that takes a group and gives what each member gets in this round.

    observed: loads and speeds; a member is called by its client id, which is its member id up to the last
    part of the broker's making (`C0-<uuid>`). use: whether the algorithm gets them; without them it goes by
    number, whatever else the machine does.
    """

    def __init__(self, observed: ObservedGroup, use: bool = True) -> None:
        self._observed, self._use = observed, use
        self._problems: list[str] = []
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="asked", daemon=True)

    def __enter__(self) -> AssignorServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def saw(self, at: float, ends: dict[AssignedPartition, tuple[float, float]]) -> None:
        """At that second the logs ended here, and their consumers were there, in bytes."""
        with self._lock:
            for partition, (end, position) in ends.items():
                self._observed.log(at, partition, end, position)

    def processed(self, member: str, amount: float, busy: float) -> None:
        """The member of that client id processed `amount` bytes in `busy` seconds of work."""
        with self._lock:
            self._observed.processed(member, amount, busy)

    def answer(self, question: dict[str, Any]) -> dict[str, list[AssignedPartition]]:
        """What each member gets in this round."""
        with self._lock:
            loads = self._observed.loads() if self._use else {}
            speeds = self._observed.speeds() if self._use else {}
        members = tuple(
            Member(
                id=name,
                topics=frozenset(member["topics"]),
                owned=frozenset(AssignedPartition(topic, number) for topic, number in member["owned"]),
                speed=speeds.get(name.split("-", 1)[0]),
                generation=member["generation"],
            )
            for name, member in question["members"].items()
        )
        partitions = {topic: _count(told, topic, members) for topic, told in question["partitions"].items()}
        group = Group(members, partitions, loads)
        return this_round(group, assign(group))

    def problems(self) -> list[str]:
        """Why questions since the last call could not be answered."""
        found, self._problems = self._problems, []
        return found

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed: the laboratory is done
                return
            with connection:
                try:
                    self._reply(connection)
                except Exception as error:
                    # The next question may be a better one. Who asked this one gets no answer, and fails.
                    log.exception("an assignor's question could not be answered")
                    self._problems.append(f"an assignor's question could not be answered: {error!r}")

    def _reply(self, connection: socket.socket) -> None:
        connection.settimeout(_PATIENCE)
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
        connection.sendall(json.dumps(self.answer(json.loads(b"".join(parts)))).encode())


def _count(told: int | None, topic: str, members: Iterable[Member]) -> int:
    """How many partitions the topic has; as many as its members own, where the leader does not know it."""
    owned = (each.number + 1 for member in members for each in member.owned if each.topic == topic)
    return told or max(owned, default=0)
