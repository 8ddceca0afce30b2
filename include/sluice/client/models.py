"""What the client answers with, beside tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal


@dataclass(frozen=True)
class Task:
    """A task as it stands."""

    name: str
    version: int
    topic: str
    description: str | None
    state: Literal["active", "paused", "failed"]
    period: str
    timezone: str
    dimensions: tuple[str, ...]
    metrics: tuple[str, ...]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Task:
        return cls(
            name=answer["name"],
            version=answer["version"],
            topic=answer["topic"],
            description=answer["description"],
            state=answer["state"],
            period=answer["period"],
            timezone=answer["timezone"],
            dimensions=tuple(answer["dimensions"]),
            metrics=tuple(answer["metrics"]),
        )


@dataclass(frozen=True)
class Event:
    """News of a topic. `tasks`: those that it concerns, with their versions.

    A `commit` has a number. A `publication` has the day that was published last, and when it was. A
    `backfill` has the days that were filled backwards, and `superseded` all published days that are to be
    computed again.
    """

    kind: str
    topic: str
    tasks: Mapping[str, int]
    commit: int | None = None
    day: date | None = None
    at: datetime | None = None
    days: tuple[date, ...] = ()

    @classmethod
    def of(cls, kind: str, data: Mapping[str, Any]) -> Event:
        day, at = data.get("day"), data.get("at")
        return cls(
            kind,
            data["topic"],
            dict(data["tasks"]),
            data.get("commit"),
            None if day is None else date.fromisoformat(day),
            None if at is None else datetime.fromisoformat(at),
            tuple(date.fromisoformat(each) for each in data.get("days", ())),
        )
