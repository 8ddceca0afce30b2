"""Writes a log into the front-ends' directories as their web servers would have written it.

Each line goes to the file of its event's day. The first line of a later day begins that day's file. There is
no way back: a late line goes into the current file, as it would on a real server. Files are only ever
appended to, by whole lines. Replaying a log twice makes new lines, which have other offsets.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from types import TracebackType

from sluice.collection import inventory
from sluice.collection.agent import LOCAL
from sluice.collection.pattern import Pattern
from sluice.runtime.days import today
from sluice.runtime.settings import Settings
from sluice.traffic.packed import ReplayError, blocks

#: Called now and then with the lines and bytes written so far.
ReplayProgress = Callable[[int, int], None]

_FLUSH = 1 << 20
#: Most bytes of lines that are kept until the first line with a date comes.
_UNDATED = 16 << 20
#: Of a line, as Kafka takes it by default.
LONGEST = 16 << 20
#: What is left on a disk that lines are written to: Kafka and HDFS need it for the same lines.
RESERVE = 1 << 30
# If a rate is given, lines are written in this many portions a second.
_PORTIONS = 10
_DATE_BYTES = len("17/May/2015")
_PROGRESS_SECONDS = 1.0


@dataclass(frozen=True)
class Replayed:
    """What was written."""

    lines: int
    bytes: int
    files: int


def replay(
    settings: Settings,
    file: Path,
    rate: float | None = None,
    host: str | None = None,
    progress: ReplayProgress | None = None,
    *,
    servers: Sequence[Server] = (),
) -> Replayed:
    """Write the lines of a log to the front-ends.

    file: plain or packed (`packed.blocks`); CRLF becomes LF, and the last line gets its newline. rate: lines
    a second; None: as fast as possible. host: the front-end; None: line by line to all in turn. servers:
    where to write instead of to this machine's front-ends. Raises ReplayError, InventoryError.
    """
    if rate is not None and rate <= 0:
        raise ReplayError(f"rate = {rate:g}: give more than 0 lines a second, or leave it out")
    lines = read_lines(
        file, longest=settings.kafka.max_message_bytes, most=settings.limits.unpacked_log_bytes
    )
    servers = servers or _servers(settings, host)
    pace, report = _Pace(rate), _Report(progress)
    count = size = 0
    try:
        for line in lines:
            server = servers[count % len(servers)]
            server.write(line)
            count += 1
            size += len(line) + 1
            if pace.due(count):
                for each in servers:
                    each.flush()
                pace.wait(count)
            report(count, size)
    finally:
        for each in servers:
            each.close()
    if progress:
        progress(count, size)
    return Replayed(count, size, len({path for each in servers for path in each.files}))


def read_lines(file: Path, *, longest: int = LONGEST, most: int = 0) -> Iterator[bytes]:
    """The lines without their ends.

    longest: bytes of a line; with more, the file is no log. most: see `packed.blocks`. Raises ReplayError for
    a file that cannot be read.
    """
    return _lines(file, blocks(file, most), longest)


def _lines(file: Path, read: Iterable[bytes], longest: int) -> Iterator[bytes]:
    rest: list[bytes] = []  # the pieces of a line that is not complete yet
    number = size = 0
    for block in read:
        first, *others = block.split(b"\n")
        rest.append(first)
        size += len(first)
        if others:
            *complete, last = [b"".join(rest), *others]
            for line in complete:
                number += 1
                if len(line) > longest:
                    raise _too_long(file, number, longest)
                yield line.removesuffix(b"\r")
            rest, size = [last], len(last)
        if size > longest:
            raise _too_long(file, number + 1, longest)
    if last := b"".join(rest):
        yield last.removesuffix(b"\r")


def _too_long(file: Path, number: int, longest: int) -> ReplayError:
    return ReplayError(
        f"{file}: line {number:,} has over {longest:,} bytes; what came before it was replayed. A record of "
        "Kafka holds no more (kafka.max_message_bytes), and no line over 1 MiB is counted: is it a log?"
    )


class Server:
    """A front-end's current log file; `reserve` bytes stay free on its disk."""

    def __init__(self, pattern: Pattern, reserve: int = RESERVE) -> None:
        self.pattern, self.reserve = pattern, reserve
        self.files: list[Path] = []
        self._day: date | None = None
        self._out: int | None = None
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._undated: list[bytes] = []  # lines before the first with a date
        self._waiting = 0  # their bytes
        self._days: dict[bytes, date | None] = {}

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, line: bytes) -> None:
        """Append a line to the file of its day.

        It goes to the current file if that is of a later day, or if the line has no date.
        """
        day = self._event_day(line)
        if self._day is None and day is None:
            self._undated.append(line)
            self._waiting += len(line) + 1
            if self._waiting > _UNDATED:  # then it is a log without dates
                self._turn(today())
            return
        if day is not None and (self._day is None or day > self._day):
            self._turn(day)
        self._append(line)

    def flush(self) -> None:
        """Hand over what is buffered, whole lines only."""
        if self._out is None or not self._buffer:
            return
        self._check_room()
        data = memoryview(b"\n".join([*self._buffer, b""]))
        while data:
            data = data[os.write(self._out, data) :]
        self._buffer, self._buffered = [], 0

    def _check_room(self) -> None:
        """Raise ReplayError before the disk is full: then the platform itself could not write."""
        folder = self.files[-1].parent
        if (free := shutil.disk_usage(folder).free - self._buffered) < self.reserve:
            self._buffer, self._buffered = [], 0
            raise ReplayError(
                f"{folder}: {max(0, free):,} bytes would be left on the disk, and {self.reserve:,} are kept "
                "free for Kafka and HDFS; what came before was replayed. Make room, or replay less"
            )

    def close(self) -> None:
        if self._undated:  # no line had a date
            self._turn(today())
        self.flush()
        if self._out is not None:
            os.close(self._out)
            self._out = None

    def _append(self, line: bytes) -> None:
        self._buffer.append(line)
        self._buffered += len(line) + 1
        if self._buffered >= _FLUSH:
            self.flush()

    def _turn(self, day: date) -> None:
        self.flush()
        if self._out is not None:
            os.close(self._out)
        path = self.pattern.path(day)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._day = day
        self.files.append(path)
        if _is_torn(path):  # a line that a crash cut short: end it, or the next would become part of it
            self._buffer.append(b"")
        undated, self._undated = self._undated, []
        for line in undated:
            self._append(line)

    def _event_day(self, line: bytes) -> date | None:
        """The day in the first brackets, as its server wrote it; None if there is none."""
        at = line.find(b"[") + 1
        text = line[at : at + _DATE_BYTES]
        try:
            return self._days[text]
        except KeyError:
            if len(self._days) > 10_000:  # noqa: PLR2004 - a file of garbage
                self._days.clear()
            found = self._days[text] = _day(text) if at else None
            return found


def _day(text: bytes) -> date | None:
    try:
        return datetime.strptime(text.decode("ascii"), "%d/%b/%Y").date()
    except ValueError:
        return None


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _servers(settings: Settings, host: str | None) -> list[Server]:
    front_ends = [f for f in inventory.load(settings).front_ends if f.runs_on == LOCAL]
    chosen = [f for f in front_ends if host in (None, f.host)]
    if not chosen:
        known = ", ".join(f.host for f in front_ends)
        raise ReplayError(f"no front-end {host!r} in the inventory; known are: {known}")
    return [Server(Pattern.parse(f.files[0], settings.home)) for f in chosen]


class _Pace:
    """Keeps to a number of lines a second.

    They are counted from the beginning, so that delays are made up for.
    """

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._portion = max(1, int(rate / _PORTIONS)) if rate else 0
        self._began = time.monotonic()

    def due(self, lines: int) -> bool:
        return self._portion > 0 and lines % self._portion == 0

    def wait(self, lines: int) -> None:
        if self._rate:
            time.sleep(max(0.0, self._began + lines / self._rate - time.monotonic()))


class _Report:
    """Calls back once a second; looks at the clock only every 100 lines."""

    def __init__(self, progress: ReplayProgress | None) -> None:
        self._progress = progress
        self._next = time.monotonic() + _PROGRESS_SECONDS

    def __call__(self, lines: int, size: int) -> None:
        if self._progress and lines % 100 == 0 and time.monotonic() >= self._next:
            self._next = time.monotonic() + _PROGRESS_SECONDS
            self._progress(lines, size)
