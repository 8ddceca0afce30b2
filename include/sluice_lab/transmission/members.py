"""The laboratory's Java processes: consumers that say what they do, and the producer that gives them work."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import psutil

from sluice.assignment.base import AssignedPartition
from sluice_lab.processes import end_with_laboratory
from sluice_lab.transmission.rivals import command

RECORD_BYTES = 1_000  # paper 003's
_HEAP = "96m"
_END_SECONDS = 20.0

Kind = Literal["ready", "got", "assigned", "revoked", "lost", "left", "failed"]


class MemberEvent(NamedTuple):
    """What a member said. at: seconds since 1970; what: the document as Consume.java wrote it."""

    member: str
    kind: Kind
    at: float
    what: dict[str, Any]

    def partitions(self) -> list[AssignedPartition]:
        """Those of assigned, revoked, lost and got."""
        return [AssignedPartition(each[0], each[1]) for each in self.what["of"]]


def processors() -> list[int]:
    """Those that each consumer is pinned to: all that there are, without the first if there are more."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[1:] or usable


def _begin(pinned: Collection[int]) -> None:
    """For a consumer before its program begins: all threads of the JVM inherit its processors."""
    end_with_laboratory()
    os.sched_setaffinity(0, pinned)


class Consumer:
    """One consumer process. It may join groups one after the other; its events are collected meanwhile."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._events: list[MemberEvent] = []
        self._ready = threading.Event()
        self._process = subprocess.Popen(
            command("Consume", _HEAP), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, bufsize=1,
            preexec_fn=functools.partial(_begin, processors()),  # noqa: PLW1509
        )  # fmt: skip
        self._statistics = psutil.Process(self._process.pid)
        self._thread = threading.Thread(target=self._read, name=f"events of {name}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ready(self, seconds: float) -> bool:
        """Whether the process is up, after waiting at most `seconds`."""
        return self._ready.wait(seconds)

    def join(self, properties: Mapping[str, str], topics: Sequence[str], speed: float) -> None:
        """Join a group; process `speed` bytes a second."""
        self._say({"do": "join", "properties": dict(properties), "topics": list(topics), "speed": speed})

    def leave(self) -> None:
        """Leave the group in an orderly way."""
        self._say({"do": "leave"})

    def stop(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(_END_SECONDS)

    def freeze(self, frozen: bool) -> None:
        """Stop the process where it stands (SIGSTOP), or let it go on."""
        if frozen:
            self._statistics.suspend()
        else:
            self._statistics.resume()

    def cpu(self) -> float:
        """The seconds of CPU time that the process has used."""
        times = self._statistics.cpu_times()
        return float(times.user + times.system)

    def take(self) -> list[MemberEvent]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    def _say(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue
            what = json.loads(line)
            self._events.append(MemberEvent(self.name, what["event"], what["at"] / 1e3, what))
            if what["event"] == "ready":
                self._ready.set()


class Producer:
    """Sends records at a steady rate, as a context."""

    def __init__(self, bootstrap: str, rates: Mapping[AssignedPartition, float]) -> None:
        """rates: bytes a second of each partition."""
        wanted = {
            "bootstrap": bootstrap,
            "bytes": RECORD_BYTES,
            "rates": [[*partition, rate / RECORD_BYTES] for partition, rate in rates.items()],
        }
        self._process = subprocess.Popen(
            command("Produce", _HEAP, json.dumps(wanted)), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=end_with_laboratory,  # noqa: PLW1509
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._process.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:  # it waits for a broker
            self._process.kill()
            self._process.wait()
