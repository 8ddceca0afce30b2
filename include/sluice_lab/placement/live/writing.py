"""Front-ends that write lines all the time, and what each wrote when."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from sluice_lab.placement.live.scenarios import LINE_BYTES

Times = NDArray[np.int64]  # ms since the epoch
_TICK_SECONDS = 0.2


@dataclass
class _File:
    """One front-end's log file. at, count: when lines were written, and how many."""

    handle: int
    name: bytes
    rate: float  # lines a second
    at: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    lines: int = 0


class LineWriter:
    """Writes lines of equal length, as a context: it begins on entry and ends on exit."""

    def __init__(self, files: Mapping[str, Path], rates: Mapping[str, float]) -> None:
        """files: of each front-end, new ones. rates: lines a second."""
        self._stack = ExitStack()
        self._files: dict[str, _File] = {}
        for name, path in files.items():
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            self._stack.callback(os.close, handle)
            self._files[name] = _File(handle, name.encode(), rates[name])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="front-ends")
        self._problem: BaseException | None = None

    def __enter__(self) -> LineWriter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._stack.close()

    def written(self) -> dict[str, Times]:
        """When each line was written, by front-end. Raises what made the writer end early."""
        if self._problem is not None:
            raise self._problem
        return {
            name: np.repeat(np.array(each.at, np.int64), np.array(each.count, np.int64))
            for name, each in self._files.items()
        }

    def _run(self) -> None:
        began = time.monotonic()
        try:
            while not self._ended.wait(_TICK_SECONDS):
                for each in self._files.values():
                    self._write(each, int((time.monotonic() - began) * each.rate) - each.lines)
        except BaseException as error:
            self._problem = error

    def _write(self, each: _File, count: int) -> None:
        if count <= 0:
            return
        now = time.time_ns() // 1_000_000
        lines = range(each.lines, each.lines + count)
        made = b"".join((b"%d %s line %d" % (now, each.name, n)).ljust(LINE_BYTES - 1) + b"\n" for n in lines)
        os.write(each.handle, made)
        each.at.append(now)
        each.count.append(count)
        each.lines += count
