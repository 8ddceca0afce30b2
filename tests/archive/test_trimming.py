"""What may be deleted from Kafka: never what the archive or the speed layer lacks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import KafkaTimeoutError

from sluice.archive import trimming
from sluice.archive.trimming import KafkaTrimmer, limits, trim
from sluice.runtime.settings import Settings
from sluice.transmission.topic_logs import TopicLogs
from sluice.transmission.topics import Span, Topics
from sluice_lab.waiting import until
from tests.archive.archive_trial import Trial

PLENTY = 1 << 40


def test_what_is_old_and_read_goes() -> None:
    spans = {0: Span(10, 60, 100), 1: Span(0, 0, 50), 2: Span(5, 90, 90)}
    sizes = dict.fromkeys(spans, 1_000)
    everything = {0: 100, 1: 50, 2: 90}
    assert limits(spans, sizes, everything, PLENTY) == {0: 60, 2: 90}
    assert limits(spans, sizes, {0: 30, 1: 50}, PLENTY) == {0: 30}
    assert limits(spans, sizes, {0: 10, 2: 5}, PLENTY) == {}


def test_what_is_too_much_goes_though_it_is_young_but_nothing_unread() -> None:
    spans = {0: Span(0, 0, 1_000), 1: Span(500, 500, 600)}
    sizes = {0: 9_000, 1: 1_000}
    assert limits(spans, sizes, {0: 1_000, 1: 600}, 5_000) == {0: 500, 1: 550}
    assert limits(spans, sizes, {0: 200, 1: 500}, 5_000) == {0: 200}
    assert limits(spans, sizes, {0: 1_000, 1: 600}, 10_000) == {}


offsets = st.integers(0, 100)


@given(
    spans=st.dictionaries(
        st.integers(0, 3), st.tuples(offsets, offsets, offsets).map(lambda t: Span(*sorted(t)))
    ),
    read=st.dictionaries(st.integers(0, 3), offsets),
    size=st.integers(0, 100),
    most=st.integers(1, 400),
)
def test_nothing_goes_that_was_not_read(
    spans: dict[int, Span], read: dict[int, int], size: int, most: int
) -> None:
    for number, before in limits(spans, dict.fromkeys(spans, size), read, most).items():
        assert spans[number].start < before <= min(read[number], spans[number].end)


class AwayOnce:
    """Kafka that does not answer the first two looks."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self, settings: Settings) -> Iterator[str]:
        self.looks += 1
        if self.looks <= 2:
            raise KafkaTimeoutError("no broker")
        yield "logs: 5 records"


def test_a_fault_is_said_once_and_does_not_end_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(trimming, "trim", AwayOnce())
    trimmer = KafkaTrimmer(Settings(instance="test"), said.append)
    for _ in range(3):
        trimmer.look()
    assert said == [
        "Kafka is not trimmed: KafkaTimeoutError: KafkaTimeoutError: no broker",
        "logs: 5 records",
    ]


def test_it_looks_on_a_beat_and_only_while_its_daemons_are_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    trimmer = KafkaTrimmer(Settings(instance="test"), str)
    monkeypatch.setattr(trimmer, "look", lambda: looks.append(time.monotonic()))
    trimmer({"kafka": "does not answer", "postgres": ""})
    trimmer({"kafka": "", "postgres": "starts"})
    assert looks == []
    trimmer({"kafka": "", "postgres": ""})
    until(lambda: len(looks) == 1)
    trimmer({"kafka": "", "postgres": ""})
    time.sleep(0.05)
    assert len(looks) == 1


def test_of_others_kafka_nothing_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmer = KafkaTrimmer(Settings(instance="test", external=frozenset({"kafka"})), str)
    monkeypatch.setattr(trimmer, "look", lambda: pytest.fail("it looked"))
    trimmer({})
    assert trimmer._thread is None


@pytest.mark.stack
def test_kafka_deletes_nothing_of_an_archived_topic_and_this_what_both_layers_have(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real broker: a topic is held, trimmed up to what was read, and released."""
    settings, topic = trial.settings, trial.topic
    trial.produce(100)
    monkeypatch.setattr(trimming.TopicStore, "names", lambda self: [topic])
    monkeypatch.setattr(TopicLogs, "topics", lambda self: {topic})  # the others are the platform's
    monkeypatch.setattr(trimming, "read_by_all", lambda *given: dict.fromkeys(given[-1], 10))
    now = datetime.now(UTC) + timedelta(days=settings.kafka.retention_days, minutes=5)
    said = list(trim(settings, now))
    with Topics(settings) as topics, TopicLogs(settings) as logs:
        spans = topics.spans(topic, 0)
        assert logs.held([topic]) == {topic}
        assert sum(logs.sizes(topic, spans).values()) > 0
    assert said[0] == f"{topic} is archived: Kafka deletes nothing from it by itself"
    assert {span.start for span in spans.values()} <= {0, 10}
    assert any(span.start == 10 for span in spans.values())
    assert list(trim(settings, datetime.now(UTC))) == []
    with TopicLogs(settings) as logs:
        logs.release(topic)
        assert logs.held([topic]) == set()
