"""The front-ends' files, compared with the byte ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sluice.collection.machine import ReadableFile
from sluice.runtime.arrays import Ints
from sluice.runtime.settings import Settings

NOTHING: Ints = np.empty(0, np.int64)
CHUNK_BYTES = 32 << 20
NEWLINE = 10
#: How many stretches of missing lines are named for each file.
HOLES = 20


@dataclass(frozen=True)
class FileAccount:
    """One front-end file against its ledger."""

    host: str
    src_file: str
    lines: int  # complete lines in the file
    bytes: int  # of these, newlines included
    missing_lines: int  # whose first byte the ledger lacks
    missing_bytes: int
    holes: tuple[tuple[int, int], ...] = ()  # the first stretches of missing bytes


def account(path: ReadableFile, host: str, src_file: str, starts: Ints, ends: Ints) -> FileAccount:
    """Compare a file's lines with the ledger's intervals [starts, ends).

    The intervals are sorted and disjoint. A line is missing when its *first byte* is in no interval. A line
    over 16 MiB, which Flume's agents cut, leaves a hole behind its beginning although it was taken.
    """
    lines = size = missing_lines = missing_bytes = 0
    holes: list[tuple[int, int]] = []
    for begin, end in line_spans(path):
        lines += len(begin)
        size = int(end[-1])
        before = np.searchsorted(starts, begin, side="right") - 1
        seen = (
            (before >= 0) & (begin < np.take(ends, before, mode="clip"))
            if len(starts)
            else np.zeros(len(begin), bool)
        )
        missing = np.flatnonzero(~seen)
        missing_lines += len(missing)
        missing_bytes += int((end[missing] - begin[missing]).sum())
        for i in missing[:100]:
            if holes and holes[-1][1] == begin[i]:
                holes[-1] = (holes[-1][0], int(end[i]))
            else:
                holes.append((int(begin[i]), int(end[i])))
    return FileAccount(host, src_file, lines, size, missing_lines, missing_bytes, tuple(holes[:HOLES]))


def line_spans(path: ReadableFile) -> Iterator[tuple[Ints, Ints]]:
    """The complete lines of a file, chunk by chunk.

    For each chunk it yields where each line begins, and where the next one would begin. A last line without
    its newline is not complete: its writer may still be writing it.
    """
    start = offset = 0  # of the first line that is not yet complete; of the chunk
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            newlines = np.flatnonzero(np.frombuffer(chunk, np.uint8) == NEWLINE).astype(np.int64)
            if len(newlines):
                end = newlines + (offset + 1)
                yield np.concatenate((np.array([start], np.int64), end[:-1])), end
                start = int(end[-1])
            offset += len(chunk)


def front_end_files(settings: Settings, topic: str) -> Iterator[tuple[tuple[str, str], ReadableFile]]:
    """The log files that the inventory assigns to a topic: ((host, name in the records), path).

    What is on the disk is the last generation of its name; earlier ones cannot be read again.
    """
    from sluice.collection import inventory
    from sluice.collection.hosting import hosting
    from sluice.collection.pattern import Pattern

    collected = inventory.load(settings)
    if collected.topic != topic:
        return
    for front_end in collected.front_ends:
        patterns = [Pattern.parse(text, settings.home) for text in front_end.files]
        machine = hosting().machine(settings, front_end.runs_on)
        for name, file in machine.log_files(front_end.host, patterns).items():
            yield (front_end.host, name), file
