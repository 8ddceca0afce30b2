"""Named phases with their seconds, and what each is doing while it runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from sluice.cli.output.terminal import REWRITE, steer

#: Without a terminal, progress is printed at most this often, so that a build log stays readable.
QUIET_SECONDS = 10.0

Say = Callable[[str], None]


class Phases:
    """Runs phases one after another and keeps their durations, in seconds, by name."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._out = out or sys.stdout
        self._live = self._out.isatty()
        self._printed_at = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[Say]:
        """Run one phase; yield the function that shows its progress.

        The last text that the function was given stays on the line.
        """
        begin, last = time.monotonic(), ""

        def say(text: str) -> None:
            nonlocal last
            last = text
            self._show(name, time.monotonic() - begin, text)

        self._printed_at = time.monotonic()
        outcome = "failed"
        try:
            yield say
            outcome = last
        finally:
            self.seconds[name] = round(time.monotonic() - begin, 1)
            self._show(name, self.seconds[name], outcome, final=True)

    def _show(self, name: str, seconds: float, text: str, final: bool = False) -> None:
        line = f"{name:<28} {seconds:6.1f} s  {text}"
        if self._live:
            steer(REWRITE, self._out)
            self._out.write(line[:150] + ("\n" if final else ""))
        elif final or time.monotonic() - self._printed_at >= QUIET_SECONDS:
            self._printed_at = time.monotonic()
            self._out.write(line + "\n")
        self._out.flush()
