from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.parse import dead_reason, event_time
from sluice.runtime.sections import Limits
from sluice.tasks import TopicSpec
from tests.examples import examples

TOPIC = TopicSpec()


def read(*lines: bytes) -> list[int | None]:
    ms, valid = event_time(pa.array(lines, pa.binary()), TOPIC)
    return [int(m) if v else None for m, v in zip(ms, valid, strict=True)]


@examples(20)
@given(
    st.lists(
        st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9998, 12, 30)),
        min_size=1,
        max_size=20,
    ),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_agrees_with_the_standard_library(times: list[datetime], offset: int) -> None:
    zoned = [t.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=offset))) for t in times]
    lines = [t.strftime("1.2.3.4 - - [%d/%b/%Y:%H:%M:%S %z] x").encode() for t in zoned]
    # strftime does not pad years below 1000, but this range has none
    assert read(*lines) == [int(t.timestamp()) * 1000 for t in zoned]


@pytest.mark.parametrize(
    "stamp",
    [
        b"31/Feb/2015:10:05:03 +0000",
        b"29/Feb/2015:10:05:03 +0000",
        b"00/May/2015:10:05:03 +0000",
        b"17/Mai/2015:10:05:03 +0000",
        b"17/may/2015:10:05:03 +0000",
        b"17/May/2015:24:05:03 +0000",
        b"17/May/2015:10:60:03 +0000",
        b"17/May/2015:10:05:60 +0000",
        b"17/May/2015:10:05:03 +2400",
        b"17/May/2015:10:05:03 +0060",
        b"17/May/1969:10:05:03 +0000",
        b"17/May/9999:10:05:03 +0000",
        b"17/May/2015:10:05:03",
        b"17/May/2015 10:05:03 +0000",
    ],
)
def test_an_invalid_time_is_refused(stamp: bytes) -> None:
    assert read(b"a - - [" + stamp + b'] "GET / HTTP/1.1" 200 1') == [None]


def test_a_leap_day_and_the_first_second() -> None:
    assert read(b"[29/Feb/2016:00:00:00 +0000]", b"[01/Jan/1970:00:00:00 +0000]") == [1456704000000, 0]


def test_the_first_stamp_counts_wherever_it_stands() -> None:
    good = b"[17/May/2015:10:05:03 +0200]"
    late = b"[18/May/2015:10:05:03 +0200]"
    expected = int(datetime(2015, 5, 17, 8, 5, 3, tzinfo=UTC).timestamp()) * 1000
    assert read(
        good,
        b"user[name] " + good,
        b"[[" + good + late,
        b"\xff\xfe[" + good,
        b"[" * 100 + good[1:],
        b"[31/Feb/2015:10:05:03 +0000] " + good,  # the first has the shape but is no date
    ) == [expected] * 5 + [None]


def test_lines_without_a_bracket_or_cut_off() -> None:
    stamp = b"[17/May/2015:10:05:03 +0000]"
    lines = [b"", b"[", b"no time", *(stamp[:n] for n in range(len(stamp))), b"\x00" * 40]
    assert read(*lines) == [None] * len(lines)


def test_empty_and_sliced_arrays() -> None:
    assert read() == []
    lines = pa.array([b"x", b"[17/May/2015:10:05:03 +0000]", b"y"], pa.binary())
    ms, valid = event_time(lines.slice(1, 1), TOPIC)
    assert valid.tolist() == [True]
    assert ms.tolist() == [1431857103000]


def test_reasons_name_what_is_wrong() -> None:
    limits = Limits(line_bytes=10)
    lines = pa.array([b"0123456789", b"0123456789a", b"short"], pa.binary())
    reasons = dead_reason(lines, np.array([True, True, False]), limits)
    assert reasons.to_pylist() == [None, "line over 10 bytes", "no event time"]
