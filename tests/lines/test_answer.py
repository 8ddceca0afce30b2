"""Which lines are behind a result: the engine's, each once, of its period, version and commit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.batch.barred import PLACES
from sluice.engine.count import count
from sluice.engine.plan import EnginePlan, Range
from sluice.lines import answer as module
from sluice.lines.answer import LinePosition
from sluice.lines.query import LinesQuery
from sluice.results.query import Where
from sluice.runtime.sections import Limits
from sluice.tasks.spec import ActiveTask, TaskSpec, TopicSpec
from tests.engine.samples import BYTES, line, spec
from tests.examples import examples
from tests.lines.made import DAY, Copy, MadeSources, answer, batch

MINUTE = 60_000
START = 1_431_857_100_000  # 2015-05-17T10:05
BEGIN = datetime(2015, 5, 17, 10, 5, tzinfo=UTC)
TASK = spec(measure=BYTES, metrics=["count", "missing", "sum"])
EVERYTHING = {0: 1000, 1: 1000}


def hits(**changes: Any) -> LinesQuery:
    return LinesQuery(task="sample", period=START, **changes)


def at(second: int, **fields: Any) -> bytes:
    return line(at=BEGIN + timedelta(seconds=second), **fields)


def one(offset: int, text: bytes, partition: int = 0, src: int | None = -1, arrival: int = 0) -> Copy:
    """A copy that arrived in the order of its offset, unless it says something else."""
    return Copy(partition, offset, arrival or offset, offset * 1000 if src == -1 else src, text)


def shown(found: module.LinesAnswer) -> list[tuple[int, int]]:
    """The places in Kafka of an answer's lines."""
    return [
        (row["kafka_partition"], row["kafka_offset"]) for rows in found.batches() for row in rows.to_pylist()
    ]


def test_a_line_has_its_identity_and_its_place() -> None:
    sources = MadeSources([[Copy(1, 20, 9_000, 77, at(3), 2)]])
    ((row,),) = (rows.to_pylist() for rows in answer(TASK, hits(), sources, below=EVERYTHING).batches())
    assert row == {
        "event_time": BEGIN + timedelta(seconds=3),
        "host": "web1",
        "src_file": "access.log",
        "src_offset": 77,
        "kafka_partition": 1,
        "kafka_offset": 20,
        "line_in_record": 2,
        "arrival": datetime.fromtimestamp(9, UTC),
        "line": at(3),
    }


def test_only_lines_of_the_period_that_the_commit_had_and_the_conditions_pass() -> None:
    lines = [at(-1), at(0), at(59), at(60), at(5, status="404"), b"no time", at(7)]
    sources = MadeSources([[one(n, text) for n, text in enumerate(lines)]])
    found = answer(TASK, hits(where=(Where(dimension="status", values=("200",)),)), sources, below={0: 6})
    assert shown(found) == [(0, 1), (0, 2)]


def test_a_line_that_is_archived_and_in_kafka_is_shown_once() -> None:
    both = one(4, at(1))
    found = answer(TASK, hits(), MadeSources([[both]], [both, one(5, at(2))]), below=EVERYTHING)
    assert shown(found) == [(0, 4), (0, 5)]


def test_a_line_without_identity_is_known_by_its_place_and_hides_no_other() -> None:
    alone = [one(n, at(n), src=None) for n in range(3)]
    assert shown(answer(TASK, hits(), MadeSources([alone]), below=EVERYTHING)) == [(0, 0), (0, 1), (0, 2)]


def test_a_forged_line_is_behind_no_result() -> None:
    forged = Copy(0, 1, 1, None, at(1), forged=True)
    assert shown(answer(TASK, hits(), MadeSources([[forged]]), below=EVERYTHING)) == []


def test_a_line_counts_where_its_first_copy_came_even_if_a_later_one_is_in_the_range() -> None:
    copies = [one(1, at(1), src=5), one(8, at(1), src=5), one(9, at(2))]
    of_second = [Range.of({0: 5})]
    assert shown(answer(TASK, hits(), MadeSources([copies]), below={0: 99}, ranges=of_second)) == [(0, 9)]
    of_first = [Range.of({}, {0: 5})]
    assert shown(answer(TASK, hits(), MadeSources([copies]), below={0: 99}, ranges=of_first)) == [(0, 1)]


def test_the_copy_that_arrived_first_decides_whichever_file_and_offset_it_has() -> None:
    here = one(1, at(1), src=5, arrival=50)
    first = one(9, at(1), partition=1, src=5, arrival=20)
    files = [[one(0, at(2), arrival=10), here], [first]]
    ranges = [Range.of({1: 10})]  # all of partition 0, and what follows the first copy
    with mock.patch.object(module, "SETTLED_LINES", 1):
        for sources in (MadeSources(files), MadeSources(files[:1], [first]), MadeSources([together(files)])):
            assert shown(answer(TASK, hits(), sources, below=EVERYTHING, ranges=ranges)) == [(0, 0)]


def together(files: list[list[Copy]]) -> list[Copy]:
    return [copy for file in files for copy in file]


def test_a_filled_day_has_the_lines_before_the_versions_first_commit() -> None:
    copies = [one(1, at(1)), one(8, at(2))]
    found = answer(
        TASK,
        hits(),
        MadeSources([copies]),
        below={0: 99},
        ranges=[Range.of({0: 5})],
        filled={DAY: Range.of({}, {0: 5})},
    )
    assert shown(found) == [(0, 1), (0, 8)]


def test_a_metric_shows_the_lines_that_it_is_computed_of() -> None:
    sources = [[one(1, at(1)), one(2, at(2, size="-")), one(3, at(3, size="0"))]]
    wanted = {"count": [1, 2, 3], "missing": [2], "sum": [1, 3]}
    for metric, offsets in wanted.items():
        found = shown(answer(TASK, hits(metric=metric), MadeSources(sources), below=EVERYTHING))
        assert found == [(0, n) for n in offsets], metric


def test_a_line_that_an_earlier_release_gave_up_for_all_tasks_is_no_results_line() -> None:
    long = at(1, path="/" + "x" * 2_000)
    copies = [one(1, long), one(2, at(2)), one(7, long), one(8, at(1, path="/" + "x" * 300))]
    places = pa.Table.from_pylist([{"partition": 0, "offset": 1, "line_in_record": 0}], PLACES)
    found = answer(TASK, hits(), MadeSources([copies]), below=EVERYTHING, barred=places)
    assert shown(found) == [(0, 2), (0, 7), (0, 8)]


@pytest.mark.slow
def test_pages_follow_each_other_and_the_rest_of_the_files_is_not_read() -> None:
    files = [[one(10 * n + m, at(m)) for m in range(5)] for n in range(20)]
    whole = shown(answer(TASK, hits(), MadeSources(files), below=EVERYTHING))
    assert len(whole) == 100
    pages: list[tuple[int, int]] = []
    after: LinePosition | None = None
    for _ in range(15):
        found = answer(TASK, hits(), MadeSources(files), below=EVERYTHING)
        for rows, places in found.pages(7, after):
            pages += [(row["kafka_partition"], row["kafka_offset"]) for row in rows.to_pylist()]
            after = places[-1]
    assert pages == whole
    sources = MadeSources(files)
    (_,) = answer(TASK, hits(), sources, below=EVERYTHING).batches(3)
    assert len(sources.read) < 10


def test_an_answer_says_when_lines_are_gone_and_only_then() -> None:
    sources = MadeSources([[one(1, at(1))]], gone=["the archive's file x is gone"])
    right = answer(TASK, hits(), sources, below=EVERYTHING, counted=1)
    assert (right.count(), right.doubts()) == (1, [])
    less = answer(TASK, hits(), sources, below=EVERYTHING, counted=4)
    assert less.count() == 1
    assert less.doubts() == ["the result counts 4 lines, and 1 were found: the archive's file x is gone"]


FIELDS = st.tuples(
    st.integers(-20, 80), st.sampled_from(["200", "404", "-"]), st.sampled_from(["1", "-", "0", "x"])
)


@st.composite
def histories(draw: st.DrawFn) -> list[Copy]:
    """Lines of a file in two partitions, some of them copied later, some of them in a neighbour's record."""
    texts = [
        at(second, status=status, size=size) for second, status, size in draw(st.lists(FIELDS, min_size=1))
    ]
    begins = [0]
    for text in texts:
        begins.append(begins[-1] + len(text) + 1)
    came = draw(st.lists(st.integers(0, len(texts) - 1), max_size=8))
    ends = [(0, draw(st.integers(0, 9))), (0, draw(st.integers(0, 9)))]  # each partition's offset and clock
    made = []
    for number in [*range(len(texts)), *came]:
        partition = draw(st.integers(0, 1))
        offset, arrival = (end + draw(st.integers(1, 5)) for end in ends[partition])
        ends[partition] = offset, arrival
        made.append(Copy(partition, offset, arrival, begins[number], texts[number]))
    return made


def by_batch_rule(copies: Sequence[Copy], task: TaskSpec, ranges: Sequence[Range]) -> dict[Any, int]:
    """The lines of each result, by the rule of the batch layer: sorted, the first copy, then the engine."""
    first: dict[Any, Copy] = {}
    for each in sorted(copies, key=lambda c: (c.arrival, c.offset, c.line_in_record, c.partition)):
        first.setdefault(each.src_offset, each)
    own = ActiveTask(1, 1, task)
    plan = EnginePlan.of([own], Limits(), TopicSpec(name=task.topic), {(1, 1): ranges})
    found: pa.Table = count(batch(list(first.values())), plan).partials
    return {(row["period_start"], row["key"]): row["lines"] for row in found.to_pylist()}


@pytest.mark.slow
@given(histories(), st.data())
@examples(50)
def test_every_result_has_as_many_lines_as_it_counts(copies: list[Copy], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, 2 * len(copies)))
    ranges = [Range.of({0: cut, 1: cut // 2})]
    files: list[list[Copy]] = [[] for _ in range(4)]
    for each in copies:
        files[data.draw(st.integers(0, 3))].append(each)
    rest, *files = files
    again = data.draw(st.lists(st.sampled_from(copies), max_size=3))
    wanted = by_batch_rule(copies, TASK, ranges)
    for start in (START - MINUTE, START, START + MINUTE):
        for status in ("200", "404", "-"):
            query = hits(where=(Where(dimension="status", values=(status,)),))
            query = query.model_copy(update={"period": start})
            sources = MadeSources([each for each in files if each], [*rest, *again])
            found = answer(TASK, query, sources, below={0: 10_000, 1: 10_000}, ranges=ranges)
            with mock.patch.object(module, "SETTLED_LINES", 1):
                assert found.count() == wanted.get((start, status), 0)
