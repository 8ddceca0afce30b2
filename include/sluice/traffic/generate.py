"""A made-up access log, the same for the same seed, with keys as frequent as in `edu`.

The format is Apache's combined one. The key is a domain, the first segment of the path
(``/www.site00001.example/page3``; 00001 is the most frequent). Clients, pages, statuses, sizes and the time
of day are merely plausible. Some sizes are "-", as in every real log.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.runtime.arrays import Floats, Ints
from sluice.traffic import edu

LINES, DAYS, START = 20_000, 3, date(2026, 1, 5)
_BATCH = 250_000  # lines; with another number a seed gives another log
_DAY = 86_400
_CLIENTS = 4_096
_PAGES = 40

_METHODS = (["GET", "POST", "HEAD"], [0.93, 0.05, 0.02])
_STATUSES = (
    ["200", "304", "206", "301", "302", "403", "404", "500"],
    [0.80, 0.08, 0.02, 0.02, 0.02, 0.01, 0.045, 0.005],
)
_BODYLESS = pa.array(["304", "301", "302"])
_AGENTS = (
    [
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Safari",
        "Mozilla/5.0 (X11; Linux x86_64; rv:121.0) Gecko/20100101 Firefox/121.0",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML) Mobile",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "curl/8.4.0",
        "-",
    ],
    [0.45, 0.15, 0.12, 0.15, 0.07, 0.03, 0.03],
)


def write(path: Path, lines: int = LINES, *, seed: int = 1, days: int = DAYS, start: date = START) -> None:
    """Write the log into a file, in the order of its times (UTC)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        for batch in batches(lines, seed=seed, days=days, start=start):
            out.write(batch)


def batches(
    lines: int = LINES, *, seed: int = 1, days: int = DAYS, start: date = START
) -> Iterator[memoryview]:
    """The log as blocks of whole lines. Raises ValueError for less than one line or day."""
    if lines < 1 or days < 1:
        raise ValueError(f"lines = {lines}, days = {days}: both must be at least 1")
    random = np.random.default_rng(seed)
    seconds = _times(random, lines, days)
    names = pa.array([f"/www.site{rank:05d}.example/page" for rank in range(1, edu.KEYS + 1)])
    days_text = pa.array([(np.datetime64(start) + d).item().strftime("%d/%b/%Y:") for d in range(days)])
    clock = pa.array([f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for s in range(_DAY)])
    for first in range(0, lines, _BATCH):
        at = seconds[first : first + _BATCH]
        yield _lines(random, at, names, days_text, clock)


def _times(random: np.random.Generator, lines: int, days: int) -> Ints:
    """Seconds from the start, in order.

    Traffic is least at 4 in the morning, and five times as much in the afternoon.
    """
    hours = np.arange(24)
    weight = 1.5 + np.cos((hours - 16) * np.pi / 12)
    hour = random.choice(24, size=lines, p=weight / weight.sum())
    seconds = random.integers(days, size=lines) * _DAY + hour * 3600 + random.integers(3600, size=lines)
    seconds.sort()
    return seconds


def _lines(
    random: np.random.Generator,
    at: Ints,
    names: pa.StringArray,
    days: pa.StringArray,
    clock: pa.StringArray,
) -> memoryview:
    n = len(at)

    def choose(values: tuple[list[str], list[float]]) -> pa.StringArray:
        return pa.array(values[0]).take(pa.array(random.choice(len(values[0]), size=n, p=values[1])))

    key = np.searchsorted(_cumulative(), random.random(n), side="right")
    client = np.minimum(random.pareto(1.2, n) * 20, _CLIENTS - 1).astype(np.int64)
    page = np.minimum(random.geometric(0.25, n), _PAGES)
    size = np.maximum(random.lognormal(8.5, 1.6, n), 1).astype(np.int64)
    method, status = choose(_METHODS), choose(_STATUSES)
    path = pc.binary_join_element_wise(names.take(pa.array(key)), _text(page), "")
    bodyless = pc.or_(pc.is_in(status, value_set=_BODYLESS), pc.equal(method, "HEAD"))
    came_by_link = pa.array(random.random(n) < 0.55)  # noqa: PLR2004
    lines = pc.binary_join_element_wise(
        "10.0.",
        _text(client // 256),
        ".",
        _text(client % 256),
        " - - [",
        days.take(pa.array(at // _DAY)),
        clock.take(pa.array(at % _DAY)),
        ' +0000] "',
        method,
        " ",
        path,
        ' HTTP/1.1" ',
        status,
        " ",
        pc.if_else(bodyless, "-", _text(size)),
        ' "',
        pc.if_else(came_by_link, pc.binary_join_element_wise("http:/", path, ""), "-"),
        '" "',
        choose(_AGENTS),
        '"\n',
        "",
    )
    # The text of all lines is in one piece, in the buffer after the offsets.
    offsets = np.frombuffer(lines.buffers()[1], np.int32)
    return memoryview(lines.buffers()[2])[offsets[0] : offsets[n]]


def _cumulative() -> Floats:
    cumulative = np.cumsum(edu.frequencies())
    cumulative[-1] = 1.0  # despite rounding, because a draw may be anything below 1
    return cumulative


def _text(numbers: Ints) -> pa.StringArray:
    return pa.array(numbers).cast(pa.string())
