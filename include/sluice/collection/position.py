"""How far each file has been read: TAILDIR's position file, and how it is taken back.

TAILDIR commits its position together with the put into the channel. The lines that a memory channel held when
its agent died are gone although the position has passed them, so the position has to go back. How far is
known: a channel is a queue, so it held what was put last, and no more bytes than it may hold. What had left
the channel was in a collector's file channel. Lines that come twice are recognised by their identity, in
whatever blocks they come.

Where a name's content was replaced (truncated, or made again), the agent begins another *generation* of the
name: the offsets begin again, so the lines get another name. What it knows of them is in `generations.json`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sluice.runtime.files import write_whole

GENERATIONS_FILE = "generations.json"
#: Between a name and its generation; no name that can be followed has it (`collection.pattern`).
GENERATION = "#"
_BLOCK = 1 << 20
_NEWLINE = ord("\n")


@dataclass(frozen=True)
class Position:
    """One file's entry."""

    inode: int
    pos: int  # always just after a newline
    file: str  # absolute

    @property
    def reached_end(self) -> bool:
        """Whether this very file has been read to its end, or is gone."""
        try:
            status = os.stat(self.file)
        except FileNotFoundError:
            return True
        # Beyond the end: it was truncated, and the agent has not looked since.
        return status.st_ino == self.inode and self.pos == status.st_size

    @property
    def is_current(self) -> bool:
        """Whether this is a place in the file that has the name now, by its inode and size."""
        try:
            status = os.stat(self.file)
        except FileNotFoundError:
            return False
        return status.st_ino == self.inode and self.pos <= status.st_size


def read(path: Path) -> list[Position] | None:
    """The entries; None if the file is missing or was torn by a crash.

    TAILDIR begins again then.
    """
    try:
        return parsed(path.read_text())
    except (FileNotFoundError, ValueError, TypeError):
        return None


def parsed(text: str | bytes) -> list[Position]:
    """The entries of a position file. Raises ValueError or TypeError if it was torn."""
    return [Position(**entry) for entry in json.loads(text)]


def identity(path: Path, home: Path, generations: Mapping[str, int]) -> str:
    """A log file's header src_file: its path, relative to the instance's home if it is in it.

    The number of a generation other than the first follows: ``access.2015-05-17.log#1``.
    """
    name = path.relative_to(home).as_posix() if path.is_relative_to(home) else path.as_posix()
    number = generations.get(name, 0)
    return f"{name}{GENERATION}{number}" if number else name


def generations(path: Path) -> dict[str, int]:
    """The generation that each name is at, from an agent's `generations.json`; empty without the file."""
    try:
        known = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return generation_numbers(known)


def generation_numbers(entries: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The generation of each name, from what a `generations.json` says."""
    return {name: entry["generation"] for name, entry in entries.items()}


def rewind(path: Path, sent: int, max_line: int) -> dict[str, tuple[int, int]]:
    """Take every position back by `sent` bytes that were sent, but not past its file's beginning.

    ``max_line``: the bytes that were sent of a longer line. The agent must not run. Returns
    {file: (old, new)} of those that moved. A position of an earlier content stays, so that the agent sees
    what happened; so does the age of the position file, by which it knows a position that is older than a
    generation.
    """
    positions = read(path)
    if positions is None:
        path.unlink(missing_ok=True)
        return {}
    current = {each.file: each.pos for each in positions if each.is_current}
    to = {file: line_before(Path(file), pos, sent, max_line) for file, pos in current.items()}
    return rewind_to(path, to)


def rewind_to(path: Path, to: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Take positions back to where lines begin: {file: byte}; as `rewind` does, and never forward."""
    positions = read(path) or []
    text, moved = taken_back(positions, {each.file: to[each.file] for each in positions if each.file in to})
    if moved:
        written = path.stat()
        write_whole(path, text)
        os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
    return moved


def taken_back(
    positions: Iterable[Position], to: Mapping[str, int]
) -> tuple[str, dict[str, tuple[int, int]]]:
    """The position file's text with positions that went back, and {file: (old, new)} of these."""
    entries, moved = [], {}
    for each in positions:
        pos = min(each.pos, to.get(each.file, each.pos))
        if pos < each.pos:
            moved[each.file] = (each.pos, pos)
        entries.append({"inode": each.inode, "pos": pos, "file": each.file})
    return json.dumps(entries), moved


def line_before(path: Path, pos: int, sent: int, max_line: int) -> int:
    """Where the nearest line begins from which to ``pos`` at least ``sent`` bytes were sent.

    A line was sent with its newline, but not with more than ``max_line`` bytes before it. It is 0 if the file
    has fewer bytes, and ``pos`` if the file is gone.
    """
    try:
        with path.open("rb") as file:
            end = after = pos  # lines from `after` on are taken into account
            while end > 0 and sent > 0:
                start = max(0, end - _BLOCK)
                file.seek(start)
                block = np.frombuffer(file.read(end - start), np.uint8)
                begins = np.flatnonzero(block == _NEWLINE)[::-1] + (start + 1)
                begins = begins[begins < after]
                sizes = np.minimum(-np.diff(begins, prepend=after), max_line + 1)
                covered = np.cumsum(sizes)
                at = int(np.searchsorted(covered, sent))
                if at < len(begins):
                    return int(begins[at])
                if len(begins):
                    sent, after = sent - int(covered[-1]), int(begins[-1])
                end = start
            return 0 if sent > 0 else pos
    except FileNotFoundError:
        return pos
