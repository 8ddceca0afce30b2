"""Records come while the group is assigned again, and what a released writer says late is not heard."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.consumer import ConsumerCoordinator

from sluice.archive.feeds import Feeds
from sluice.archive.file import ArchivedPartition
from sluice.archive.inbox import TOGETHER_SECONDS, Item
from sluice.archive.partition import PartitionWriter
from sluice.archive.polling import SHORT_POLL_MS, polled
from sluice.runtime.sections import Archive
from sluice.runtime.settings import Settings
from tests.messages import Message
from tests.tasks.database import sqlite

AT = TopicPartition("logs", 0)
RECORDS = {AT: [Message(7, b"x", [])]}
LONG_MS = 200


@dataclass
class Consumer:
    """kafka-python's consumer, as far as it is asked. fetched: what its fetcher has. calls: in order."""

    joining: bool = False
    paused_now: bool = False
    found: dict[TopicPartition, list[Message]] = field(default_factory=dict)
    fetched: dict[TopicPartition, list[Message]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    waited: int = 0
    _next_partition_records: Any = None

    @property
    def _coordinator(self) -> Consumer:
        return self

    @property
    def _fetcher(self) -> Consumer:
        return self

    def rebalance_in_progress(self) -> bool:
        return self.joining

    def paused(self) -> set[TopicPartition]:
        return {AT} if self.paused_now else set()

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Message]]:
        self.waited = timeout_ms
        self.calls.append("poll")
        return self.found

    def maybe_validate_positions(self) -> None:
        self.calls.append("mark")

    def validate_offsets_if_needed(self) -> None:
        self.calls.append("validate")

    def fetch_records(
        self, max_records: int, timeout_ms: int
    ) -> tuple[dict[TopicPartition, list[Message]], bool]:
        self.calls.append("fetch")
        return self.fetched, False


def test_a_member_that_waits_for_others_to_join_reads_on() -> None:
    consumer = Consumer(joining=True, fetched=RECORDS)
    assert polled(consumer, LONG_MS, 10) == RECORDS
    assert consumer.calls == ["poll", "mark", "validate", "fetch"]
    assert consumer.waited == SHORT_POLL_MS


def test_a_poll_that_gave_records_or_found_nothing_is_the_only_one() -> None:
    busy = Consumer(joining=True, found=RECORDS)
    assert polled(busy, LONG_MS, 10) == RECORDS
    idle = Consumer(fetched=RECORDS)
    assert polled(idle, LONG_MS, 10) == {}
    assert busy.calls == idle.calls == ["poll"]
    assert idle.waited == LONG_MS


def test_a_poll_is_short_while_a_partition_is_paused() -> None:
    consumer = Consumer(paused_now=True)
    polled(consumer, LONG_MS, 10)
    assert consumer.waited == SHORT_POLL_MS


def test_kafka_python_has_what_is_asked_of_it() -> None:
    assert callable(ConsumerCoordinator.rebalance_in_progress)
    for called in (Fetcher.maybe_validate_positions, Fetcher.validate_offsets_if_needed):
        required = [
            each
            for name, each in inspect.signature(called).parameters.items()
            if name != "self" and each.default is inspect.Parameter.empty
        ]
        assert not required
    assert {"max_records", "timeout_ms"} <= inspect.signature(Fetcher.fetch_records).parameters.keys()


@dataclass(eq=False)
class Writer:
    """A writer that does nothing."""

    place: ArchivedPartition

    def start(self) -> None: ...

    def stop(self, flush_seconds: float) -> None: ...


def test_a_released_writer_is_not_heard_when_its_partition_is_back() -> None:
    feeds = Feeds()
    first, second = (Writer(ArchivedPartition("logs", "x", 0)) for _ in range(2))
    feeds.add(first)  # type: ignore[arg-type]
    assert feeds.of(first) is feeds.get(0)  # type: ignore[arg-type]
    feeds.release([0], 0.0)
    assert feeds.of(first) is None  # type: ignore[arg-type]
    feeds.add(second)  # type: ignore[arg-type]
    assert feeds.of(first) is None  # type: ignore[arg-type]
    assert feeds.of(second) is feeds.get(0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("age", "together"), [(0.1, 0.1), (15.0, TOGETHER_SECONDS)])
def test_a_writer_waits_no_longer_for_more_than_its_files_may_be_old(
    monkeypatch: pytest.MonkeyPatch, age: float, together: float
) -> None:
    asked: list[Sequence[float]] = []
    settings = Settings().model_copy(update={"archive": Archive(max_age_seconds=age)})
    writer = PartitionWriter(
        settings, ArchivedPartition("logs", "x", 0), topics=None, database=sqlite(),  # type: ignore[arg-type]
        events=lambda of, event: None, generation=lambda: 0, key=b"k",
    )  # fmt: skip

    def take(wait: float, together: float) -> Item | None:
        asked.append((wait, together))
        return None

    monkeypatch.setattr(writer._inbox, "take", take)
    assert writer._next_item() is None
    assert asked[0][1] == together
