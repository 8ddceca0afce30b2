"""Flume's TAILDIR source with Sluice's classes, in a process of its own that looks when it is told to."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sluice.runtime.jvm import LIB, QUICK, java
from sluice.runtime.settings import make_secret, read_secret
from sluice.transmission.mac import mac

NAME = "logs/access.2026-01-05.log"
STRETCH, LIMIT = 256 << 10, 64 << 10
_DRIVERS = [Path(__file__).with_name(name) for name in ("FollowFiles.java", "Partitions.java")]

Line = tuple[str, int, str]  # src_file, offset, text


class Block(NamedTuple):
    """One event."""

    src_file: str
    offset: int
    body: bytes
    key: str

    def lines(self) -> list[tuple[str, int, bytes]]:
        """Its lines as the contract splits them, each with its file and offset."""
        found, offset = [], self.offset
        for line in self.body.split(b"\n"):
            found.append((self.src_file, offset, line))
            offset += len(line) + 1
        return found


@dataclass
class Follower:
    home: Path
    classes: str
    idle_ms: int = 3_600_000
    max_line: int = (16 << 20) - (16 << 10)
    _running: subprocess.Popen[str] | None = field(default=None)

    @classmethod
    def made(cls, home: Path, classes: str) -> Follower:
        """One whose instance has its folders and its key."""
        follower = cls(home, classes)
        follower.folder.mkdir(parents=True)
        follower.log.parent.mkdir()
        make_secret(home, "identity")
        return follower

    @property
    def folder(self) -> Path:
        return self.home / "flume" / "web1"

    @property
    def log(self) -> Path:
        return self.home / NAME

    def start(self) -> None:
        command = [
            java(), *QUICK.split(), f"-Dsluice.folder={self.folder}", f"-Dsluice.home={self.home}",
            f"-Dsluice.maxLine={self.max_line}", "-cp", self.classes, "FollowFiles",
            str(self.folder), str(self.home), f"{self.log.parent}/access\\.[0-9-]+\\.log", str(self.idle_ms),
        ]  # fmt: skip
        self._running = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._answer() == []

    def look(self) -> list[Line]:
        """The lines that the source finds now."""
        return [(*line[:2], line[2].decode()) for block in self.blocks() for line in block.lines()]

    def blocks(self) -> list[Block]:
        """The blocks that the source finds now, each proved to be what the contract allows."""
        self._order("look")
        return self._answer()

    def counters(self) -> dict[str, dict[str, str]]:
        """The counters of the process, as its agent shows them."""
        self._order("counters")
        out = self._process().stdout
        assert out is not None
        found: dict[str, dict[str, str]] = json.loads(out.readline())
        return found

    def stop(self) -> None:
        """In order: the position file is written."""
        process = self._process()
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0

    def kill(self) -> None:
        """The position file stays as it was."""
        self._process().kill()
        self._process().wait()

    def restart(self) -> list[Line]:
        self.stop()
        self.start()
        return self.look()

    def close(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()

    def _process(self) -> subprocess.Popen[str]:
        assert self._running is not None
        return self._running

    def _order(self, text: str) -> None:
        process = self._process()
        assert process.stdin is not None
        process.stdin.write(f"{text}\n")
        process.stdin.flush()

    def _answer(self) -> list[Block]:
        out = self._process().stdout
        assert out is not None
        found = []
        for name, offset, text, proof, key in json.loads(out.readline()):
            block = Block(name, int(offset), text.encode("latin-1"), key)
            secret = read_secret(self.home, "identity").encode()
            assert proof.encode() == mac(secret, b"web1", name.encode(), offset.encode(), block.body)
            self._check(block)
            found.append(block)
        return found

    @staticmethod
    def _check(block: Block) -> None:
        """That it is within one stretch, which its key names, and not too long."""
        stretches = {offset // STRETCH for _, offset, _ in block.lines()}
        assert stretches == {block.offset // STRETCH}
        assert block.key == f"web1\0{block.src_file}\0{block.offset // STRETCH}"
        assert len(block.body) <= LIMIT or b"\n" not in block.body


def compile_drivers(target: Path) -> str:
    """The class path with the compiled drivers."""
    flume = f"{LIB / 'flume' / 'classes'}{os.pathsep}{LIB / 'flume' / '*'}"
    javac = Path(java()).with_name("javac") if "/" in java() else "javac"
    subprocess.run([javac, "-nowarn", "-d", target, "-cp", flume, *_DRIVERS], check=True)
    return f"{target}{os.pathsep}{flume}"
