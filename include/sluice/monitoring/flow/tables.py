"""The picture's tables, from what was seen: freshness, lines at each hop, hot keys and load by worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluice.monitoring import sampled
from sluice.monitoring.flow.booked import TopicBooks
from sluice.monitoring.flow.boxes import minute, projected_at
from sluice.monitoring.flow.past import FlowPast, Minute
from sluice.monitoring.flow.picture import FreshRow, HopRow, HotTask, ShownHotKey, Sparkline, WorkerLoad
from sluice.monitoring.flow.seen import FlowAnswers
from sluice.stack.progress import CountedTopic

#: The share of the lines whose wait is shown, and over how many of the newest minutes.
MOST_LINES, NEWEST = 0.95, 10
#: Tasks, keys and workers that are shown.
TASKS, KEYS, WORKERS = 8, 3, 8


def fresh(seen: FlowAnswers) -> tuple[FreshRow, ...]:
    """Each topic that the speed layer reads or the books know."""
    past: FlowPast = seen.past.value or FlowPast()
    books: Mapping[str, TopicBooks] = seen.books.value or {}
    reading = seen.speed.topics
    return tuple(
        _fresh(seen, topic, reading.get(topic, CountedTopic()), books.get(topic), past)
        for topic in sorted({*books, *reading})
    )


def hops(seen: FlowAnswers) -> tuple[HopRow, ...]:
    """The blocks that the agents sent, then the lines of each topic."""
    past: FlowPast = seen.past.value or FlowPast()
    sent = [
        HopRow("", title, "blocks", past.total(("blocks", tier)), None)
        for title, tier in (("Sent by the edges", "edge"), ("Sent by the collectors", "collector"))
    ]
    books: Mapping[str, TopicBooks] = seen.books.value or {}
    return (*sent, *(row for topic, of in sorted(books.items()) for row in _hops(topic, of, past)))


def hot(seen: FlowAnswers) -> tuple[HotTask, ...]:
    """The tasks with the hottest keys."""
    past: FlowPast = seen.past.value or FlowPast()
    return tuple(_hot(seen, report, past) for report in sampled.hottest(seen.speed)[:TASKS])


def within(counts: Mapping[str, float], share: float) -> float | None:
    """The bound (seconds) below which at least this share of the lines waited; None without lines.

    counts: lines between each upper bound and the one before it.
    """
    total = sum(counts.values())
    if not total:
        return None
    cumulated = 0.0
    for bound in sorted(counts, key=float):
        cumulated += counts[bound]
        if cumulated >= share * total:
            return float(bound)
    return float("inf")


def _fresh(
    seen: FlowAnswers, topic: str, reading: CountedTopic, books: TopicBooks | None, past: FlowPast
) -> FreshRow:
    def waited(minutes: Sequence[Minute]) -> float | None:
        return _waited(minutes, topic)

    return FreshRow(
        topic,
        waited(past.minutes[-NEWEST:]),
        reading.batch_at,
        projected_at(reading),
        books.archived if books else None,
        books.computed if books else "",
        books.published if books else "",
        Sparkline("95 % within", "s", past.points("fresh", (topic,), minute(seen), waited)),
    )


def _waited(minutes: Sequence[Minute], topic: str) -> float | None:
    counts: dict[str, float] = {}
    for each in minutes:
        for key, lines in each.grown.items():
            if key[:2] == ("fresh", topic):
                counts[key[2]] = counts.get(key[2], 0.0) + lines
    return within(counts, MOST_LINES)


def _hops(topic: str, books: TopicBooks, past: FlowPast) -> Iterator[HopRow]:
    def lately(hop: str) -> float | None:
        return past.total(("hop", topic, hop))

    ever = books.hops.get
    yield HopRow(topic, "Committed from Kafka", "records", lately("records"), ever("records"))
    yield HopRow(topic, "Counted online", "lines", lately("online"), ever("online"))
    yield HopRow(topic, "Doubles, left out", "lines", past.total(("lines", topic, "doubled")), None)
    yield HopRow(topic, "Dead letters", "lines", float(books.dead), None)
    yield HopRow(topic, "Archived, doubles included", "lines", lately("archived"), ever("archived"))
    yield HopRow(topic, "Computed by nights", "lines", lately("computed"), ever("computed"))


def _hot(seen: FlowAnswers, report: Mapping[str, Any], past: FlowPast) -> HotTask:
    topic, task, now = report["topic"], report["task"], minute(seen)
    keys = [[sampled.storable(value) for value in each["key"]] for each in report["hot"][:KEYS]]
    imbalance = report.get("imbalance")
    return HotTask(
        task,
        topic,
        report["strategy"],
        imbalance["last"] if imbalance else None,
        tuple(
            ShownHotKey(
                tuple(key),
                each["share"],
                tuple(each["workers"]),
                Sparkline("Share", "", past.gauges(("hot", topic, task, *key), now)),
            )
            for key, each in zip(keys, report["hot"], strict=False)
        ),
        tuple(
            WorkerLoad(
                worker, share, Sparkline("Load", "", past.gauges(("load", topic, task, str(worker)), now))
            )
            for worker, share in sampled.shares(report)[:WORKERS]
        ),
        Sparkline("max / mean - 1", "", past.gauges(("imbalance", topic, task), now)),
    )
