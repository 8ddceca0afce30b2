"""Lines of an access log that are made one by one, so that whoever writes them knows each value."""

from __future__ import annotations

import datetime as dt
import random


def access_lines(day: dt.date, number: int, seed: int = 0) -> list[str]:
    """Lines of a day in Apache's combined format, in order of time; some have no size."""
    chance = random.Random(f"{day}/{seed}")  # noqa: S311
    moments = sorted(chance.randrange(86_400) for _ in range(number))
    return [
        access_line(
            dt.datetime.combine(day, dt.time(), dt.UTC) + dt.timedelta(seconds=second),
            client=f"10.0.{seed % 250}.{chance.randrange(30)}",
            path=f"/p/{chance.randrange(12)}",
            status=chance.choice(["200", "200", "200", "304", "404", "500"]),
            size=chance.choice(["-", str(chance.randrange(100_000))]),
        )
        for second in moments
    ]


def access_line(when: dt.datetime, *, client: str, path: str, status: str, size: str) -> str:
    stamp = when.strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'{client} - - [{stamp}] "GET {path} HTTP/1.1" {status} {size} "-" "Mozilla/5.0 (X11)"'
