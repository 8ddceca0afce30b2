"""Which lines of the front-ends' files are missing: those that agents have read, and a layer lacks."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import PurePath

import numpy as np

from sluice.collection import deploy
from sluice.collection.at_once import reason
from sluice.collection.hosting import machine_of
from sluice.collection.machine import ReadableFile
from sluice.collection.position import GENERATION
from sluice.runtime.arrays import Ints
from sluice.runtime.settings import Settings
from sluice.speed.ledger import ByteLedger, File

BLOCK = 1 << 20
NEWLINE = b"\n"


@dataclass(frozen=True)
class CollectedFile:
    """A log file that is there. read_to: the byte up to which its edge has read it.

    day: that its name says, if there is such a day.
    """

    host: str
    src_file: str
    read_to: int
    day: date | None
    contents: ReadableFile

    @property
    def key(self) -> File:
        return self.host, self.src_file


@dataclass(frozen=True)
class MissingLines:
    """Lines of a file that are missing: the stretches [start, end) of bytes, each from a line's first one.

    read_to: up to where the file was read.
    """

    host: str
    src_file: str
    spans: tuple[tuple[int, int], ...]
    read_to: int

    @property
    def first(self) -> int:
        return self.spans[0][0]

    @property
    def bytes(self) -> int:
        return sum(end - start for start, end in self.spans)

    def __str__(self) -> str:
        shown = ", ".join(f"{start:,} to {end - 1:,}" for start, end in self.spans[:3])
        more = f" and {len(self.spans) - 3} more stretches" if len(self.spans) > 3 else ""  # noqa: PLR2004
        return f"{self.host}:{self.src_file}, bytes {shown}{more}"


def collected_files(settings: Settings, topic: str) -> tuple[dict[File, CollectedFile], dict[str, str]]:
    """The files that the topic's edges follow, and why other edges cannot be asked, by their names."""
    found: dict[File, CollectedFile] = {}
    away: dict[str, str] = {}
    for edge in deploy.agents(settings):
        if (edge.tier, edge.topic) != ("edge", topic):
            continue
        try:
            machine, patterns = machine_of(settings, edge), edge.patterns(settings.home)
            read_to = machine.read_to(edge)
            files = machine.log_files(edge.name, patterns)
        except Exception as error:
            away[edge.name] = reason(edge, error)
            continue
        for name, contents in files.items():
            base = PurePath(name.partition(GENERATION)[0]).name
            day = next((pattern.day(base) for pattern in patterns if pattern.matches(base)), None)
            one = CollectedFile(edge.name, name, read_to.get(name, 0), day, contents)
            found[one.key] = one
    return found, away


def uncounted_spans(
    files: Mapping[File, CollectedFile], counted: ByteLedger, forgotten_before: date | None
) -> dict[File, Ints]:
    """What the byte ledger lacks of what was read: rows of (start, end), by each file that has any.

    forgotten_before: retention deleted files of the ledger. What it may have deleted is not taken for
    missing, because it would count again: the beginnings of files whose names say no day from then on.
    """
    found = {}
    for key, file in files.items():
        holes = without_forgotten(counted.holes(*key, file.read_to), file, forgotten_before)
        if len(holes):
            found[key] = holes
    return found


def without_forgotten(holes: Ints, file: CollectedFile, forgotten_before: date | None) -> Ints:
    """The holes without the file's beginning, if retention may have deleted it; None: it deleted nothing."""
    in_doubt = forgotten_before and (file.day is None or file.day < forgotten_before)
    return holes[1:] if in_doubt and len(holes) and holes[0, 0] == 0 else holes


def without(spans: Ints, taken: Ints, size: int) -> Ints:
    """What of some stretches of a file's first `size` bytes lies outside others."""
    return _between(joined(_between(spans, size), taken), size)


def _between(spans: Ints, size: int) -> Ints:
    """The file's first `size` bytes without these stretches, which are in order and disjoint."""
    gaps = np.column_stack([np.append(0, spans[:, 1]), np.append(spans[:, 0], size)]).clip(max=size)
    return gaps[gaps[:, 0] < gaps[:, 1]]


def joined(one: Ints, other: Ints) -> Ints:
    """The union of two sets of stretches, in order; stretches that touch become one."""
    both = np.concatenate([one, other])
    if not len(both):
        return both
    both = both[np.argsort(both[:, 0], kind="stable")]
    reach = np.maximum.accumulate(both[:, 1])
    first = np.append(True, both[1:, 0] > reach[:-1])
    return np.column_stack([both[first, 0], reach[np.append(first[1:], True)]])


def missing_lines(file: CollectedFile, spans: Ints) -> MissingLines | None:
    """The lines of a file that begin in these stretches; None without one.

    What an agent cuts off a long line leaves a stretch in which no line begins.
    """
    ends = [(int(start), int(end)) for start, end in spans]
    with file.contents.open("rb") as opened:
        begun = tuple((at, end) for start, end in ends for at in _line_from(opened, start, end))
    return MissingLines(*file.key, begun, file.read_to) if begun else None


def _line_from(file: io.BufferedReader, start: int, end: int) -> Iterator[int]:
    """Where the first line begins in [start, end), if one does."""
    at = max(0, start - 1)
    if start == 0:
        yield 0
        return
    file.seek(at)
    while at < end - 1:
        block = file.read(min(BLOCK, end - 1 - at))
        found = block.find(NEWLINE)
        if found >= 0:
            yield at + found + 1
            return
        if not block:
            return
        at += len(block)
