"""Each line with a time is counted, filtered out or skipped for a reason, by each task and by its topic.

`outcomes` has the tables, which `skips` fills in a pass.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine import count as counting
from sluice.engine import cut, fields, parse
from sluice.engine.count import CountedLines, count
from sluice.engine.outcomes import COUNTS, LOOKED_AT, SAMPLES, Reckoning, summed
from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import Version
from sluice.engine.trial import trial
from sluice.runtime.sections import Limits
from sluice.tasks import TaskSpec, TopicSpec
from tests.engine.samples import active, line, records, spec
from tests.examples import examples

AT = b"[17/May/2015:10:05:03 +0000]"
STATUS: dict[str, Any] = {"name": "status", "extract": {"field": "status"}}
PATH: dict[str, Any] = {"name": "path", "extract": {"field": "path"}}
NOT_304 = {"extract": {"field": "status"}, "filter": {"mode": "black", "values": ["304"]}}
LONG = line(path="/" + "x" * 2000)
NO_LOG = b"no access log " + AT
LIMITS = Limits()
LOGS = TopicSpec()
TASKS = [
    spec(name="by_status", dimensions=[STATUS]),
    spec(name="by_path", dimensions=[PATH]),
    spec(name="not_304", dimensions=[STATUS, PATH], where=[NOT_304]),
    spec(name="all", dimensions=[]),
    spec(name="only_a", dimensions=[{**PATH, "filter": {"mode": "white", "regex": "^/a"}}]),
    spec(
        name="either",
        dimensions=[PATH, {"name": "agent", "extract": {"field": "agent", "regex": "^curl"}}],
        where=[{"extract": {"field": "user"}, "filter": {"mode": "black", "values": ["j d"]}}],
    ),
]


def counted(lines: list[bytes], *specs: TaskSpec, topic: TopicSpec = LOGS) -> CountedLines:
    return count(records(lines), EnginePlan.of(active(*specs), LIMITS, topic))


def tallied(found: pa.Table) -> dict[Version, tuple[int, ...]]:
    """The numbers of each version over all days; `COUNTS` says which."""
    sums: dict[Version, np.ndarray[Any, Any]] = {}
    for row in found.to_pylist():
        key = row["task_id"], row["version"]
        sums[key] = sums.get(key, np.zeros(4, int)) + [row[name] for name in COUNTS]
    return {key: tuple(values.tolist()) for key, values in sums.items()}


def test_one_long_url_keeps_a_line_from_one_task() -> None:
    found = counted([line(path="/short"), LONG], *TASKS[:2])
    assert tallied(found.tallies) == {(0, 0): (2, 0, 0, 0), (1, 1): (2, 0, 0, 0), (2, 1): (1, 0, 0, 1)}
    assert found.reason.null_count == 2
    (sample,) = found.skipped.to_pylist()
    assert sample["reason"] == "value of dimension path is over 1024 bytes"
    assert (sample["kind"], sample["offset"], sample["bytes"]) == ("too_long", 1, len(LONG))


def test_a_line_of_another_format_is_unmatched_by_topic_and_tasks() -> None:
    found = counted([line(), NO_LOG, b"no time"], *TASKS[:4])
    assert tallied(found.tallies) == {
        (0, 0): (1, 0, 1, 0),
        (1, 1): (1, 0, 1, 0),
        (2, 1): (1, 0, 1, 0),
        (3, 1): (1, 0, 1, 0),
        (4, 1): (2, 0, 0, 0),  # it needs nothing of the line
    }
    reasons = {(row["task_id"], row["reason"]) for row in found.skipped.to_pylist()}
    assert reasons == {
        (0, "not a line of an access log"),
        (1, "status: nothing was extracted"),
        (2, "path: nothing was extracted"),
        (3, "where/0: nothing was extracted"),
    }


@pytest.mark.parametrize(
    ("topic", "lines", "reason"),
    [
        (
            {"format": "json", "time": {"extract": {"regex": "[0-9-]+T[0-9:]+Z"}, "format": "iso8601"}},
            [b'{"at": "2015-05-17T10:05:03Z"}', b"2015-05-17T10:05:03Z {", b"2015-05-17T10:05:03Z"],
            "not JSON",
        ),
        (
            {"format": "json", "time": {"extract": {"field": "at"}, "format": "iso8601"}},
            [b'{"at": "2015-05-17T10:05:03Z"}', b"2015-05-17T10:05:03Z {"],
            "",  # a line that is not JSON has no time here
        ),
        (
            {
                "format": "delimited",
                "delimiter": ";",
                "columns": ["at", "client", "rest"],
                "time": {"extract": {"field": "at"}, "format": "iso8601"},
            },
            [b"2015-05-17T10:05:03Z;a;b;c", b"2015-05-17T10:05:03Z;a;", b"2015-05-17T10:05:03Z;a"],
            "fewer columns than the topic names",
        ),
        (
            {
                "format": "delimited",
                "delimiter": ";",
                "columns": ["client", "at"],
                "time": {"extract": {"field": "at"}, "format": "iso8601"},
            },
            [b"a;2015-05-17T10:05:03Z", b"2015-05-17T10:05:03Z"],
            "",
        ),
    ],
)
def test_what_is_not_of_a_topics_format(topic: dict[str, Any], lines: list[bytes], reason: str) -> None:
    made = TopicSpec.model_validate({"name": "shop", **topic})
    found = counted(lines, topic=made)
    timed = sum(reason is None for reason in found.reason.to_pylist())
    unmatched = [row for row in found.skipped.to_pylist() if row["task_id"] == 0]
    assert tallied(found.tallies) == {(0, 0): (timed - len(unmatched), 0, len(unmatched), 0)}
    assert {row["reason"] for row in unmatched} == ({reason} if reason else set())


def test_what_a_filter_rejects_is_filtered_out_whatever_else_is_wrong() -> None:
    """Another kind of event is not a line that was not understood."""
    other = spec(
        dimensions=[{"name": "user", "extract": {"delimiter": "|", "index": 9}}, PATH],
        where=[{"extract": {"field": "status"}, "filter": {"mode": "white", "values": ["200"]}}],
    )
    found = counted([line(status="404"), line(path="/" + "x" * 2000, status="404"), line(), LONG], other)
    assert tallied(found.tallies)[1, 1] == (0, 2, 2, 0)


hostile = st.sampled_from([line(), LONG, NO_LOG, AT, b"x", line(status="304"), line(path="/a/" + "y" * 1100)])
lines_of = st.lists(
    hostile
    | st.builds(
        line,
        path=st.sampled_from(["/", "/a/b", "", "/" + "z" * 1024, "/two words"]),
        status=st.sampled_from(["200", "304", "-", "20"]),
        client=st.sampled_from(["10.0.0.1", "", "a b"]),
    ).map(lambda text: text.replace(b" - - ", b" - j d ") if b"304" in text else text),
    max_size=30,
)


@pytest.mark.slow
@examples(60)
@given(lines_of)
def test_no_line_with_a_time_is_lost_and_a_trial_says_the_same(lines: list[bytes]) -> None:
    found = counted(lines, *TASKS)
    timed = found.reason.null_count
    sums = tallied(found.tallies)
    for number, task in enumerate(TASKS, 1):
        numbers = sums.get((number, 1), (0, 0, 0, 0))
        assert sum(numbers) == timed
        said: Counter[str] = Counter(each.outcome for each in trial(task, LOGS, lines, LIMITS))
        assert numbers == tuple(said[name] for name in COUNTS), task.name
        partials = found.partials.filter(pa.compute.equal(found.partials["task_id"], number))
        assert sum(partials["lines"].to_pylist()) == numbers[0]
    if timed:
        assert sum(sums[0, 0]) == timed


@pytest.mark.slow
@examples(40)
@given(lines_of)
def test_the_kernel_tallies_as_numpy_does(lines: list[bytes]) -> None:
    plain = counted(lines, *TASKS)
    with pytest.MonkeyPatch.context() as patch:
        for module in (cut, fields, parse, counting):
            patch.setattr(module, "COMPILED_LINES", 0)
        compiled = counted(lines, *TASKS)
    assert compiled.tallies.equals(plain.tallies)
    assert compiled.skipped.equals(plain.skipped)


def test_days_are_tallied_apart_and_samples_are_few() -> None:
    other = NO_LOG.replace(b"17/May", b"18/May")
    found = counted([NO_LOG, other] * 100, TASKS[0])
    rows = {(row["day"], row["task_id"]): row["unmatched"] for row in found.tallies.to_pylist()}
    assert rows == {(day, task): 100 for day in (16572, 16573) for task in (0, 1)}
    assert len(found.skipped) == 4 * SAMPLES
    assert 2 * SAMPLES <= LOOKED_AT


def test_passes_add_up_and_need_no_more_samples() -> None:
    reckoning = Reckoning()
    plan = EnginePlan.of(active(TASKS[0]), LIMITS)
    for first in range(0, 30, 3):
        batch = records([NO_LOG, line(), NO_LOG], first=first)
        made = count(batch, EnginePlan(plan.tasks, plan.limits, plan.topic, plan.fields, reckoning.sampled))
        reckoning.add(made.tallies, made.skipped)
    tallies, samples = reckoning.tables
    assert tallied(tallies) == {(0, 0): (10, 0, 20, 0), (1, 1): (10, 0, 20, 0)}
    assert len(tallies) == 2
    assert sorted(set(samples["offset"].to_pylist())) == [0, 2, 3, 5, 6]
    assert not made.skipped.num_rows
    assert summed([tallies, tallies])["unmatched"].to_pylist() == [40, 40]
