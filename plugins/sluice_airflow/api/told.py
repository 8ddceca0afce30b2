"""What a listener is told: events, from the difference between a look and what the listener knows."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from sluice.storage.tables.news import NONE, NewsSnapshot, TopicNews

#: A position's text is as long as its topics' names; a longer one is none of ours.
_LONGEST = 16_384
_PLACE = re.compile(
    r"([A-Za-z0-9._-]{1,200})=([0-9]{1,18})\.([0-9a-f]{8})?(?:\.([0-9]{1,18})\.([0-9a-f]{8})?)?"
)


class Known(NamedTuple):
    """What a listener knows of a topic."""

    commit: int
    publications: str = NONE
    revision: int = 0  # of the days that were filled
    superseded: str = NONE

    def __str__(self) -> str:
        past = f".{self.revision}.{self.superseded}" if self.revision or self.superseded else ""
        return f"{self.commit}.{self.publications}{past}"


def position(text: str) -> dict[str, Known]:
    """What the header Last-Event-ID says; nothing where it cannot be read."""
    if len(text) > _LONGEST:
        return {}
    matches = (_PLACE.fullmatch(part) for part in text.split(","))
    return {
        match[1]: Known(int(match[2]), match[3] or NONE, int(match[4] or 0), match[5] or NONE)
        for match in matches
        if match
    }


class EventListener:
    """What one listener wants and knows. `only`: the tasks; None for all there are."""

    def __init__(self, only: Collection[str] | None, known: Mapping[str, Known]) -> None:
        self._only, self._known = only, dict(known)

    def news(self, look: NewsSnapshot) -> Iterator[bytes]:
        """The events for what the listener does not know yet, as they are sent."""
        tasks: dict[str, list[str]] = {}
        for name in sorted(look.tasks if self._only is None else self._only):
            if name in look.tasks:
                tasks.setdefault(look.tasks[name][0], []).append(name)
        for topic, names in sorted(tasks.items()):
            yield from self._of_topic(topic, names, look)

    def _of_topic(self, topic: str, names: list[str], look: NewsSnapshot) -> Iterator[bytes]:
        news, known = look.topics[topic], self._known.get(topic)
        changed = [name for name in names if _is_new(look.tasks[name][1], news, known)]
        # What was filled before somebody listened is no news, and is in the first numbers.
        self._known[topic] = known or Known(0, revision=news.past.revision)
        self._knows(topic, commit=news.commit)
        if changed and news.commit:
            yield self._event("commit", {"topic": topic, "commit": news.commit}, changed, look)
        published = news.published
        if published.digest != self._known[topic].publications:
            self._knows(topic, publications=published.digest)
            if published.day is not None and published.at is not None:
                said = {"topic": topic, "day": published.day.isoformat(), "at": _utc(published.at)}
                yield self._event("publication", said, names, look)
        yield from self._of_past(topic, names, look)

    def _of_past(self, topic: str, names: list[str], look: NewsSnapshot) -> Iterator[bytes]:
        past, known = look.topics[topic].past, self._known[topic]
        new = {key for key, revision in past.filled.items() if revision > known.revision}
        self._knows(topic, revision=past.revision)
        if filled := [name for name in names if look.tasks[name][1] in {version for version, _ in new}]:
            versions = {look.tasks[name][1] for name in filled}
            days = {day for version, day in new if version in versions}
            yield self._event("backfill", {"topic": topic, "days": _days(days)}, filled, look)
        if past.digest != known.superseded:
            self._knows(topic, superseded=past.digest)
            yield self._event("superseded", {"topic": topic, "days": _days(past.superseded)}, names, look)

    def _knows(self, topic: str, **what: Any) -> None:
        self._known[topic] = self._known[topic]._replace(**what)

    def _event(self, kind: str, said: Mapping[str, Any], names: list[str], look: NewsSnapshot) -> bytes:
        data = {**said, "tasks": {name: look.tasks[name][1][1] for name in names}}
        return event(kind, data, self._position())

    def _position(self) -> str:
        return ",".join(f"{topic}={own}" for topic, own in self._known.items())


def event(kind: str, data: Mapping[str, Any], position: str | None = None) -> bytes:
    """An event as it is sent."""
    named = f"id: {position}\n" if position is not None else ""
    return f"{named}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def _days(days: Iterable[date]) -> list[str]:
    return [day.isoformat() for day in sorted(days)]


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _is_new(version: tuple[int, int], news: TopicNews, known: Known | None) -> bool:
    """Whether a commit that the listener does not know changed the version; if in doubt, it did."""
    if known is None or not news.since <= known.commit <= news.commit:
        return True
    return news.changed.get(version, 0) > known.commit
