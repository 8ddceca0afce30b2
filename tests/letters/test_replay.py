"""A replayed line counts once, whatever dies and whoever replays it again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.engine.count import count
from sluice.engine.plan import EnginePlan
from sluice.letters import replay as module
from sluice.letters.replay import LetterReplay, ReplayRefused, check, replay, replayable
from sluice.runtime.sections import Limits
from sluice.runtime.settings import Settings
from sluice.speed.ledger import ByteLedger
from sluice.storage.tables import history, schema
from sluice.storage.tables.dead_letters import DeadLetter, LetterFilter
from sluice.tasks import TaskSpec
from sluice.tasks.store import TaskStore
from sluice.tasks.topic_spec import TopicSpec
from sluice.tasks.topics import TopicStore, UnknownTopic
from sluice.transmission.line_identity import KAFKA_HOST, identify
from sluice.transmission.record_writer import LineRecord
from tests.letters.made import AT, book, letter
from tests.messages import KEY, Message, decoded
from tests.tasks.database import sqlite

SHOP = TopicSpec.model_validate(
    {"name": "shop", "format": "json", "time": {"extract": {"field": "at"}, "format": "iso8601"}}
)
HITS = TaskSpec.model_validate({"name": "hits", "topic": "shop", "period": "1d", "metrics": ["count"]})


def good(number: int) -> bytes:
    return f'{{"at": "2015-05-{17 + number % 2}T10:00:00Z", "n": {number}}}'.encode()


def of_kafka(number: int, line: bytes) -> DeadLetter:
    return letter(number, line, host=KAFKA_HOST, src_file="logs/0", src_offset=number)


LETTERS = [
    *(letter(n, good(n)) for n in range(4)),
    *(of_kafka(n, good(n)) for n in range(4, 8)),
    letter(8, b"still no time"),
    letter(9, good(9), reason="forged", host=KAFKA_HOST),
    letter(10, b"\0", reason="undecodable", unreadable="undecodable: x"),
    of_kafka(11, good(11) + b"\n"),
]
COUNTED = 8


class SpeedLayer:
    """A topic in Kafka, and the way in which both layers read it: each line's first copy counts."""

    def __init__(self, fails_after: int | None = None) -> None:
        self.records: list[LineRecord] = []
        self._fails_after = fails_after

    def write(self, records: Sequence[LineRecord]) -> None:
        for each in records:
            if self._fails_after is not None and len(self.records) == self._fails_after:
                raise ConnectionError("killed")
            self.records.append(each)

    def counted(self) -> tuple[int, ByteLedger]:
        """How many lines count, and the ledger."""
        messages = [Message(n, each.line, each.headers(KEY)) for n, each in enumerate(self.records)]
        ledger = ByteLedger()
        batch, ends = identify(decoded(0, messages), "shop")
        new = ledger.claim(*(batch.column(name) for name in ("host", "src_file", "src_offset")), ends)
        plan = EnginePlan.of([], Limits(), SHOP)
        alive = count(batch, plan).reason.is_null().to_numpy(zero_copy_only=False)
        assert alive.all()
        assert new.sum() == len({(each.host, each.src_file, each.src_offset) for each in self.records})
        return int(new.sum()), ledger


def run(layer: SpeedLayer | None, ledger: ByteLedger | None = None, **limits: Any) -> Any:
    read = [(each, None if each.unreadable else each.line) for each in LETTERS]
    made = LetterReplay(SHOP, Limits(**limits), ledger or ByteLedger(), layer, lambda _: None)
    return made.run(read)


def test_what_the_other_topic_reads_is_sent_and_counts() -> None:
    layer = SpeedLayer()
    report = run(layer)
    assert (report.looked_at, report.sent, report.counted_before) == (12, COUNTED, 0)
    assert report.days == {date(2015, 5, 17): 4, date(2015, 5, 18): 4}
    assert report.still_dead == {"no event time": 1}
    assert sorted(why.split(":")[0] for why in report.refused) == [
        "forged", "of no file, with a line feed inside", "unreadable",
    ]  # fmt: skip
    assert layer.counted()[0] == COUNTED


def test_a_second_replay_finds_the_lines_in_the_ledger() -> None:
    layer = SpeedLayer()
    run(layer)
    number, ledger = layer.counted()
    report = run(layer, ledger)
    assert (report.sent, report.counted_before) == (0, number)
    assert layer.counted()[0] == COUNTED


@pytest.mark.parametrize("written", range(COUNTED + 1))
def test_a_replay_that_dies_anywhere_is_repeated(written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTION_ROWS", 3)
    layer = SpeedLayer(written)
    try:
        run(layer)
    except ConnectionError:
        layer._fails_after = None
        run(layer)  # the speed layer committed nothing meanwhile: all are sent again
    assert layer.counted()[0] == COUNTED


def test_two_replays_at_once_double_nothing() -> None:
    layer = SpeedLayer()
    assert run(layer).sent == run(layer).sent == COUNTED
    assert len(layer.records) == 2 * COUNTED
    assert layer.counted()[0] == COUNTED


def test_a_dry_run_only_looks() -> None:
    assert run(None).sent == COUNTED


def test_a_line_over_the_limit_stays() -> None:
    report = run(SpeedLayer(), line_bytes=20)
    assert (report.sent, report.still_dead["line over 20 bytes"]) == (0, COUNTED)


def test_letters_are_replayed_for_as_long_as_a_ledger_knows_them() -> None:
    """Retention forgets a file of the ledger `retention.days` after the commit that counted its last line."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    settings = Settings.model_validate({"retention": {"days": 10}})
    later = now + timedelta(days=100)
    first = replayable(LetterFilter("logs", until=later), settings, now)
    assert first.until == now  # so that it was counted after it arrived
    forgotten = now + timedelta(days=10)  # at the earliest, what is counted now
    again = replayable(LetterFilter("logs", since=now - timedelta(days=99)), settings, forgotten)
    assert again.since is not None
    assert again.since > now
    narrow = LetterFilter("logs", "forged", now - timedelta(days=2), now - timedelta(days=1))
    assert replayable(narrow, settings, now) == narrow


@pytest.fixture
def database() -> sa.Engine:
    made = sqlite()
    TopicStore(made).apply(SHOP, "ann")
    book(made, *LETTERS, letter(12, good(12), arrived_at=datetime(2015, 5, 17, tzinfo=UTC)))
    return made


def begin(database: sa.Engine) -> None:
    """The task is there, and the speed layer counts it."""
    (change,) = TaskStore(database).apply([HITS], "ann")
    row = {"task_id": change.task_id, "version": change.version, "first_seq": 1, "topic": "shop"}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.task_ranges).values(**row, start={}, end=sa.null()))


def test_lines_go_only_where_they_are_counted(database: sa.Engine) -> None:
    with pytest.raises(ReplayRefused, match="its format never changes"):
        check(database, "logs", "logs")
    with pytest.raises(UnknownTopic):
        check(database, "logs", "shpo")
    with pytest.raises(ReplayRefused, match="no active task reads topic 'shop'"):
        check(database, "logs", "shop")
    TaskStore(database).apply([HITS], "ann")
    with pytest.raises(ReplayRefused, match="has not begun to count hits"):
        check(database, "logs", "shop")
    TaskStore(database).delete("hits", "ann")
    begin(database)
    check(database, "logs", "shop")


def test_the_whole_way_but_kafka(database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(database)
    layer = SpeedLayer()

    class Writer:
        def __init__(self, settings: Settings, topic: str, partitions: int) -> None:
            assert (topic, partitions) == ("shop", 4)

        def __enter__(self) -> SpeedLayer:
            return layer

        def __exit__(self, *_: object) -> None: ...

    class Described:
        def __init__(self, settings: Settings) -> None: ...

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None: ...

        def describe(self, name: str) -> Any:
            return type("Topic", (), {"partitions": range(4)})

    monkeypatch.setattr(module, "engine", lambda _: database)
    monkeypatch.setattr(module, "RecordWriter", Writer)
    monkeypatch.setattr(module, "Topics", Described)
    some = LetterFilter("logs", "no event time", None, AT + timedelta(seconds=6))
    assert replay(Settings(), some, "shop", who="host:ann", dry_run=True).sent == 6
    assert layer.records == []
    assert history.entries(database, what="topic", limit=1)[0].action != "replayed"
    told: list[int] = []
    report = replay(Settings(), some, "shop", who="host:ann", told=lambda so_far: told.append(so_far.sent))
    assert (report.sent, told) == (6, [6])
    entry = history.entries(database, what="topic", limit=1)[0]
    assert (entry.who, entry.name, entry.action) == ("host:ann", "logs", "replayed")
    with database.connect() as connection:
        assert "shop" in connection.scalars(sa.select(schema.frozen_topics.c.topic)).all()
    whole = replay(Settings(), LetterFilter("logs"), "shop", who="host:ann")
    assert whole.looked_at == len(LETTERS)  # one is beyond retention
    assert layer.counted()[0] == COUNTED
