"""A preview tells where each line is lost, and counts what the engine counts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.preview import ROWS, Met, preview
from sluice.runtime.sections import Limits
from sluice.tasks import TopicSpec
from tests.engine.samples import BYTES, line, spec

LOGS, LIMITS = TopicSpec(), Limits()
STATUS = {"name": "status", "extract": {"field": "status"}, "filter": {"mode": "white", "regex": "^2"}}
NO_BOTS = {"extract": {"regex": '"GET (/[^ ]*)'}, "filter": {"mode": "black", "values": ["/bot"]}}
lines = st.lists(
    st.builds(
        line,
        path=st.sampled_from(["/", "/bot", "x"]),
        status=st.sampled_from(["200", "204", "404"]),
        size=st.sampled_from(["-", "5", "10"]),
    )
    | st.just(b"no log line"),
    max_size=50,
)


def test_each_step_says_what_it_kept_filtered_and_missed() -> None:
    task = spec(where=[NO_BOTS], dimensions=[STATUS], measure=BYTES, metrics=["count", "sum", "missing"])
    made = [line(size="5"), line(size="-"), line(path="/bot"), line(path="x"), line(status="404"), b"no time"]
    found = preview(task, LOGS, made, LIMITS)
    assert [(s.name, s.pointer, s.came, s.kept, s.filtered, s.missing) for s in found.steps] == [
        ("time", "", 6, 5, 0, 1),
        ("where/0", "/where/0", 5, 3, 1, 1),
        ("status", "/dimensions/0", 3, 2, 1, 0),
        ("measure", "/measure", 2, 1, 0, 1),
    ]
    assert set(found.steps[2].values) == {Met("200", 2, "kept"), Met("404", 1, "filtered")}
    assert [(row.series, row.metrics) for row in found.rows] == [(("200",), ("2", "5", "1"))]
    assert (found.counted, found.more_rows, found.error) == (2, 0, None)


@pytest.mark.slow
@given(lines)
def test_no_line_is_lost_between_the_steps_and_the_results_count_the_rest(made: list[bytes]) -> None:
    found = preview(spec(where=[NO_BOTS], dimensions=[STATUS]), LOGS, made, LIMITS)
    came = len(made)
    for step in found.steps:
        assert step.came == came == step.kept + step.filtered + step.missing
        assert sum(met.lines for met in step.values if met.fate == "kept") <= step.kept
        came = step.kept
    assert came == found.counted == sum(int(row.metrics[0] or 0) for row in found.rows)
    expected = Counter((each.period_start, each.series["status"]) for each in found.lines if each.series)
    assert sum(expected.values()) == came


def test_a_preview_shows_the_newest_and_the_largest_results_and_says_how_many_more() -> None:
    by_client = spec(dimensions=[{"name": "client", "extract": {"field": "client"}}])
    made = [line(client=f"10.0.0.{n}") for n in range(ROWS + 5)] + [line(client="10.0.0.9")]
    found = preview(by_client, LOGS, made, LIMITS)
    assert (len(found.rows), found.more_rows, found.rows[0].series) == (ROWS, 5, ("10.0.0.9",))


def test_no_lines_have_steps_without_lines() -> None:
    found = preview(spec(), LOGS, [], LIMITS)
    assert [(step.came, step.kept) for step in found.steps] == [(0, 0), (0, 0)]
    assert found.rows == ()
