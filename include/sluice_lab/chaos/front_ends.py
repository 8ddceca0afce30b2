"""Two emulated front-ends, which write lines of a few days into their logs, a burst at a time."""

from __future__ import annotations

import datetime as dt
import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from sluice_lab.access_lines import access_lines

HOSTS = ("web1", "web2")
#: The days of the lines. They are over, so that nights can compute them.
DAYS = tuple(dt.date(2026, 3, 2) + dt.timedelta(days=n) for n in range(3))
BURST_SECONDS = 0.25
#: Clients come from so many networks of 30, so that there are not ever more series.
NETWORKS = 8


def log_file(home: Path, host: str, day: dt.date) -> Path:
    return home / "frontends" / host / f"access.{day}.log"


@dataclass
class EmulatedFrontEnds:
    """Writes `rate` lines a second in a thread of its own, between `with` and its end.

    written: the lines so far. failed: why it stopped before its end.
    """

    home: Path
    rate: float
    seed: int
    days: tuple[dt.date, ...] = DAYS
    written: int = 0
    failed: str = ""
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> EmulatedFrontEnds:
        self._thread = threading.Thread(target=self._go_on, name="front-ends")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread:
            self._thread.join()

    def write(self, host: str, day: dt.date, number: int, seed: int) -> None:
        """Append so many whole lines of the day."""
        lines = access_lines(day, number, seed)
        path = log_file(self.home, host, day)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as out:
            out.write("".join(f"{line}\n" for line in lines).encode())
        self.written += number

    def _go_on(self) -> None:
        dice = random.Random(self.seed)  # noqa: S311
        burst = max(1, round(self.rate * BURST_SECONDS))
        try:
            while not self._ended.wait(burst / self.rate):
                number = dice.randint(max(1, burst // 2), burst + burst // 2)
                seed = dice.randrange(NETWORKS) + 250 * dice.randrange(1 << 20)  # 250: see `access_lines`
                self.write(dice.choice(HOSTS), dice.choice(self.days), number, seed)
        except OSError as error:  # such as a full disk
            self.failed = f"{error.strerror}: {error.filename}"
