"""A trial shows line by line what the engine then counts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sluice.engine.count import count
from sluice.engine.trial import MAX_LINES, TooManyLines, failure, trial
from sluice.metrics import metric
from sluice.runtime.sections import Limits
from sluice.tasks import TaskSpec, TopicSpec
from tests.engine.samples import BYTES, line, plan, records, spec

LOGS = TopicSpec()
LIMITS = Limits()


def test_a_line_that_is_counted_shows_every_step() -> None:
    task = spec(
        where=[{"extract": {"regex": r'"(\w+) '}, "filter": {"mode": "white", "values": ["GET"]}}],
        dimensions=[
            {
                "name": "status",
                "extract": {"delimiter": " ", "index": 8},
                "filter": {"mode": "black", "regex": "^5"},
            }
        ],
        measure=BYTES,
        metrics=["count", "sum"],
        period="5m",
    )
    (found,) = trial(task, LOGS, [line(size="17")], LIMITS)
    assert (found.counted, found.why, found.dead) == (True, "", None)
    assert found.event_time == datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)
    assert found.period_start == datetime(2015, 5, 17, 10, 5, tzinfo=UTC)
    assert found.period_end == datetime(2015, 5, 17, 10, 10, tzinfo=UTC)
    assert [(s.name, s.value, s.verdict) for s in (*found.where, *found.dimensions)] == [
        ("where/0", "GET", "on the white list"),
        ("status", "200", "does not match the black pattern ^5"),
    ]
    assert found.measure is not None
    assert (found.measure.text, found.measure.number, found.measure.missing) == ("17", 17.0, False)
    assert found.series == {"status": "200"}


def test_every_reason_for_which_a_line_is_not_counted() -> None:
    task = spec(
        where=[{"extract": {"delimiter": " ", "index": 6}, "filter": {"mode": "black", "values": ["/bot"]}}],
        dimensions=[
            {
                "name": "status",
                "extract": {"regex": r'" (\d{3}) '},
                "filter": {"mode": "white", "regex": "^2"},
            }
        ],
    )
    lines = [
        line(path="/bot"),
        line(status="404"),
        line(status="none"),
        b"no time in here",
        line(path="/" + "x" * 5000),
        line(),
    ]
    found = trial(task, LOGS, lines, Limits(line_bytes=4096))
    assert [(each.counted, each.why) for each in found] == [
        (False, "where/0: on the black list"),
        (False, "status: does not match the white pattern ^2"),
        (False, "status: nothing was extracted"),
        (False, "dead letter: no event time"),
        (False, "dead letter: line over 4096 bytes"),
        (True, ""),
    ]
    assert found[3].event_time is None
    assert found[3].period_start is None
    assert found[0].series is None


def test_a_value_over_the_limit_keeps_the_line_from_this_task() -> None:
    task = spec(dimensions=[{"name": "path", "extract": {"delimiter": " ", "index": 6}}])
    (found,) = trial(task, LOGS, [line(path="/" + "x" * 1_024)], LIMITS)
    assert (found.dead, found.outcome) == (None, "too_long")
    assert found.why == "value of dimension path is over 1024 bytes"


@pytest.mark.parametrize(("size", "number"), [("512", 512.0), ("1e3", 1000.0), ("-", None), ("abc", None)])
def test_a_line_with_a_missing_measure_is_counted(size: str, number: float | None) -> None:
    (found,) = trial(spec(measure=BYTES, metrics=["sum"]), LOGS, [line(size=size)], LIMITS)
    assert found.measure is not None
    assert (found.measure.text, found.measure.number, found.measure.missing) == (size, number, number is None)
    assert found.counted


@pytest.mark.parametrize(("client", "missing"), [("10.0.0.7", False), ("-", True)])
def test_a_text_measure(client: str, missing: bool) -> None:
    measure = {"delimiter": " ", "index": 0, "type": "text"}
    (found,) = trial(spec(measure=measure, metrics=["unique"]), LOGS, [line(client=client)], LIMITS)
    assert found.measure is not None
    assert (found.measure.text, found.measure.number, found.measure.missing) == (client, None, missing)


def test_named_fields_of_another_format() -> None:
    topic = TopicSpec.model_validate(
        {
            "name": "shop",
            "format": "json",
            "time": {"extract": {"field": "at"}, "format": "iso8601"},
        }
    )
    task = spec(topic="shop", dimensions=[{"name": "path", "extract": {"field": "request.path"}}])
    (found,) = trial(task, topic, [b'{"at": "2015-05-17T10:05:03Z", "request": {"path": "/cart"}}'], LIMITS)
    assert found.series == {"path": "/cart"}


def test_bytes_that_are_no_text_are_shown_as_the_engine_reads_them() -> None:
    found = trial(spec(), LOGS, [line().replace(b"curl", b"\xff\x00")], LIMITS)
    assert "\ufffd\x00" in found[0].line
    assert found[0].counted


def test_a_trial_counts_what_the_engine_counts() -> None:
    task: TaskSpec = spec(
        dimensions=[
            {
                "name": "status",
                "extract": {"delimiter": " ", "index": 8},
                "filter": {"mode": "white", "regex": "^[23]"},
            }
        ]
    )
    lines = [line(status=status) for status in ("200", "304", "404", "500", "")] + [b"", b"[", b"[x] 200"]
    partials = count(records(lines), plan(task)).partials
    tried = trial(task, LOGS, lines, LIMITS)
    assert sum(partials.column("lines").to_pylist()) == sum(each.counted for each in tried)


def test_no_lines_and_too_many() -> None:
    assert trial(spec(), LOGS, [], LIMITS) == []
    with pytest.raises(TooManyLines, match="1001 lines, 1000 are allowed"):
        trial(spec(), LOGS, [b""] * (MAX_LINES + 1), LIMITS)


def test_a_task_that_would_be_set_aside_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    task = spec(measure=BYTES, metrics=["sum", "avg"])
    assert failure(task, LOGS, [line(), b"", line(size="-")], LIMITS) is None
    assert failure(task, LOGS, [], LIMITS) is None

    def raises(*_: object) -> None:
        raise ZeroDivisionError("division by zero in geometric_mean.py")

    monkeypatch.setattr(type(metric("avg")), "results", raises)
    why = "ZeroDivisionError: division by zero in geometric_mean.py"
    assert failure(task, LOGS, [line()], LIMITS) == why
    several = [line(status="200"), line(status="404")]
    assert "series in one period" in str(failure(spec(), LOGS, several, Limits(series=1)))
