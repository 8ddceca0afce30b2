"""Times in every format in which topics write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.parse import event_time
from sluice.engine.times import read_times
from sluice.tasks.extract import Extract
from sluice.tasks.topic_spec import TimeSpec, TopicSpec
from tests.examples import examples

FIRST = Extract(delimiter=";", index=0)
AT = datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)


def read(format_: str, *texts: str, zone: str | None = None) -> list[datetime | None]:
    ms, valid = read_times(pa.array(texts, pa.string()), TimeSpec(extract=FIRST, format=format_, zone=zone))
    assert all(m == 0 for m, v in zip(ms, valid, strict=True) if not v)
    return [
        datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=m) if v else None
        for m, v in zip(ms.tolist(), valid.tolist(), strict=True)
    ]


def test_iso8601() -> None:
    found = read(
        "iso8601",
        "2015-05-17T10:05:03Z",
        "2015-05-17 10:05:03",
        "2015-05-17t12:05:03+0200",
        "2015-05-17T07:35:03-02:30",
        "2015-05-17T12:05:03+02",
    )
    assert found == [AT] * 5
    assert (
        read("iso8601", "2015-05-17T10:05:03.25Z", "2015-05-17T10:05:03,250999999+00:00")
        == [AT + timedelta(milliseconds=250)] * 2
    )


def test_epochs() -> None:
    assert read("epoch_s", "1431857103", "1431857103.0", "0") == [AT, AT, datetime.fromtimestamp(0, UTC)]
    assert read("epoch_s", "1431857103.2509") == [AT + timedelta(milliseconds=250)]
    assert read("epoch_ms", "1431857103000", "1431857103000.7") == [AT] * 2


def test_apache_with_and_without_brackets() -> None:
    stamps = ("17/May/2015:12:05:03 +0200", "[17/May/2015:12:05:03 +0200]", "x [17/May/2015:10:05:03 +0000]")
    assert read("apache", *stamps) == [AT] * 3


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        ("%d.%m.%Y %H:%M:%S", "17.05.2015 10:05:03"),
        ("%Y%m%d%H%M%S%z", "20150517120503+0200"),
        ("%b %d %Y (%H|%M|%S)", "May 17 2015 (10|05|03)"),
        ("%%%Y-%m-%dT%H.%M.%S%z", "%2015-05-17T10.05.03Z"),
    ],
)
def test_patterns(format_: str, text: str) -> None:
    assert read(format_, text, f"{text} ", f" {text}", text.replace("2015", "215")) == [AT, None, None, None]


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        ("iso8601", "2015-02-29T10:05:03Z"),
        ("iso8601", "2015-05-17T24:00:00Z"),
        ("iso8601", "2015-05-17T10:05:60Z"),
        ("iso8601", "2015-05-17T10:05:03+24:00"),
        ("iso8601", "2015-05-17T10:05:03+02:60"),
        ("iso8601", "1969-12-31T10:05:03Z"),
        ("iso8601", "9999-01-01T00:00:00Z"),
        ("iso8601", "2015-05-17"),
        ("iso8601", "２０１５-05-17T10:05:03Z"),
        ("epoch_s", "-1"),
        ("epoch_s", "1e9"),
        ("epoch_s", "999999999999"),
        ("epoch_s", "1" * 40),
        ("epoch_ms", "1431857103000000"),
        ("epoch_ms", "nan"),
        ("apache", "17/Mai/2015:10:05:03 +0000"),
        ("%d.%m.%Y %H:%M:%S", ""),
        ("%b %d %Y %H:%M:%S", "may 17 2015 10:05:03"),
    ],
)
def test_texts_that_are_no_times(format_: str, text: str) -> None:
    assert read(format_, text, "") == [None, None]


@examples(30)
@given(
    st.lists(
        st.datetimes(datetime(1970, 1, 3), datetime(9998, 12, 29)).map(
            lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)
        ),
        max_size=10,
    ),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_agrees_with_the_standard_library(times: list[datetime], offset: int) -> None:
    zoned = [t.replace(tzinfo=timezone(timedelta(minutes=offset))) for t in times]
    assert read("iso8601", *(t.isoformat() for t in zoned)) == zoned
    assert read("%z %S.%f %H:%M %d-%m-%Y", *(t.strftime("%z %S.%f %H:%M %d-%m-%Y") for t in zoned)) == zoned


def test_a_stamp_without_an_offset_is_in_the_topics_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    found = read(
        "iso8601",
        "2026-07-01T12:00:00",
        "2026-10-25T02:30:00",  # shown twice: the first
        "2026-03-29T02:30:00",  # never shown: the first instant after
        "2026-07-01T12:00:00Z",  # names its own offset
        zone="Europe/Berlin",
    )
    assert found == [
        datetime(2026, 7, 1, 12, tzinfo=berlin),
        datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 0, tzinfo=UTC),
        datetime(2026, 7, 1, 12, tzinfo=UTC),
    ]


def test_the_time_of_lines_is_where_their_topic_says() -> None:
    topic = TopicSpec(
        name="shop",
        format="json",
        time=TimeSpec(extract=Extract(field="at"), format="epoch_ms"),
    )
    lines = [b'{"at": 1431857103000}', b'{"at": "1431857103000"}', b'{"at": null}', b"{", b"\xff", b""]
    ms, valid = event_time(pa.array(lines, pa.binary()), topic)
    assert valid.tolist() == [True, True, False, False, False, False]
    assert ms.tolist() == [1431857103000, 1431857103000, 0, 0, 0, 0]
    ms, valid = event_time(pa.array([], pa.binary()), topic)
    assert len(ms) == len(valid) == 0
