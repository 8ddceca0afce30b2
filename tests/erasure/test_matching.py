"""Which lines an erasure is of, by any task's extraction, by the format, and by text for dead letters."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from sluice.erasure.matching import ErasedValue, UnknownErasureDimension, extracts_of
from sluice.runtime.sections import Limits
from sluice.tasks.extract import Extract
from sluice.tasks.spec import TaskSpec
from sluice.tasks.store import TaskStore
from sluice.tasks.topic_spec import TopicSpec
from tests.archive.local_archive import batch
from tests.tasks.database import sqlite

CLIENT = Extract(field="client")
LINES = [
    b'10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 17',
    b'10.0.0.11 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 17',
    b'9.9.9.9 - - [18/May/2015:10:05:03 +0000] "GET /from/10.0.0.1 HTTP/1.1" 200 17',
    b"10.0.0.1 has no time",
    b"110.0.0.1 has none, nor has 10.0.0.12",
    b"client=10.0.0.1;",
    b"\xff10.0.0.1\xff",
]


def chosen(value: ErasedValue, lines: list[bytes] = LINES) -> list[int]:
    records = batch(range(len(lines)), lines)
    forged = records.schema.get_field_index("forged")
    genuine = records.set_column(forged, records.schema.field(forged), pa.array([False] * len(lines)))
    judged = value.judge(genuine)
    return [n for n, wanted in enumerate(judged.chosen) if wanted]


def value(text: str, *extracts: Extract, **more: Any) -> ErasedValue:
    return ErasedValue(text, extracts or (CLIENT,), TopicSpec(), Limits(), {3: 1_000}, **more)


def test_a_counted_line_is_matched_by_its_value_and_a_dead_one_by_its_text() -> None:
    assert chosen(value("10.0.0.1")) == [0, 3, 5, 6]
    assert chosen(value("10.0.0.2")) == []
    path = Extract(regex="GET ([^ ]+)")
    assert chosen(value("/from/10.0.0.1", CLIENT, path)) == [2]


def test_only_days_that_are_asked_for_and_lines_before_the_cut() -> None:
    on = {"first_day": date(2015, 5, 18), "last_day": date(2015, 5, 18)}
    assert chosen(value("9.9.9.9", **on)) == [2]
    assert chosen(value("10.0.0.1", **on)) == []
    arrived = date(2023, 11, 14)  # as all of these lines did
    assert chosen(value("10.0.0.1", first_day=arrived, last_day=arrived)) == [3, 5, 6]
    below = ErasedValue("10.0.0.1", (CLIENT,), TopicSpec(), Limits(), {3: 4})
    assert chosen(below) == [0, 3]
    assert below.has_day("2015-05-17")
    assert not value("x", first_day=date(2015, 5, 18)).has_day("2015-05-17")


@pytest.fixture
def database() -> sa.Engine:
    made = sqlite()
    common = {"topic": "logs", "period": "1h", "metrics": ["count"]}
    dimensions = [
        [{"name": "who", "extract": {"field": "client"}}],
        [
            {"name": "who", "extract": {"regex": "user=(\\w+)"}},
            {"name": "client", "extract": {"regex": "c=(\\w+)"}},
        ],
    ]
    for own in dimensions:  # two versions of a task
        spec = TaskSpec.model_validate({"name": "hits", **common, "dimensions": own})
        TaskStore(made).apply([spec], "ann")
    return made


def test_a_dimension_is_whatever_any_version_of_a_task_calls_so(database: sa.Engine) -> None:
    assert extracts_of(database, TopicSpec(), "who") == [CLIENT, Extract(regex="user=(\\w+)")]
    assert extracts_of(database, TopicSpec(), "client") == [Extract(regex="c=(\\w+)"), CLIENT]
    assert extracts_of(database, TopicSpec(), "agent") == [Extract(field="agent")]
    with pytest.raises(UnknownErasureDimension, match=r"'whom'.*the dimensions are: client, who"):
        extracts_of(database, TopicSpec(), "whom")
