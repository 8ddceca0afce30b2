"""ZooKeeper: its four-letter words, and a session that lists the root."""

from __future__ import annotations

import struct

from .report import Outcome, Report
from .target import Target
from .wire import Wire, attempt

WORDS = ("ruok", "stat", "srvr", "dump", "cons", "envi", "conf")
LIST = 8  # getChildren


def zookeeper(target: Target, report: Report) -> None:
    port = target.ports["zookeeper"]
    for word in WORDS:
        attempt(report, "zookeeper", word, port, _word(word))
    attempt(report, "zookeeper", "list /", port, _root)


def _word(word: str):
    def act(wire: Wire) -> tuple[Outcome, object]:
        wire.send(word.encode())
        answer = wire.some()
        if b"not in the whitelist" in answer:
            return Outcome.REFUSED, answer
        return (Outcome.ANSWERED if word in ("ruok", "srvr") else Outcome.READ), answer

    return act


def _root(wire: Wire) -> tuple[Outcome, object]:
    wire.send_frame(struct.pack(">iqiqi", 0, 0, 10000, 0, 16) + bytes(17))
    wire.frame()
    wire.send_frame(struct.pack(">iii", 1, LIST, 1) + b"/\0")
    answer = wire.frame()
    error = struct.unpack(">i", answer[12:16])[0]
    return (Outcome.REFUSED if error else Outcome.READ), answer[16:150]
