"""A day's lines and results as they go to Hive: `day_lines`, `day_results` and `barred`."""

from datetime import date

import numpy as np
import pyarrow as pa

from sluice.batch.barred import PLACES, REASON
from sluice.batch.day_lines import DayOf, of_day, reasons, to_logs
from sluice.batch.day_results import RESULTS, to_partials, to_results
from sluice.engine.count import count
from sluice.engine.outcomes import COUNTS, Reckoning
from sluice.engine.parse import event_time
from sluice.engine.plan import EnginePlan, Range
from sluice.engine.schema import partials_schema
from sluice.runtime.sections import Limits
from sluice.tasks.spec import ActiveTask, TaskSpec, TopicSpec
from sluice.transmission.line_schema import LINE_SCHEMA
from sluice.transmission.redacted import redact

DAY = DayOf("logs", date(2015, 5, 17))
TASKS = [
    ActiveTask(
        task_id,
        1,
        TaskSpec.model_validate(
            {
                "name": f"bytes{task_id}",
                "topic": "logs",
                "period": "1h",
                "dimensions": [{"name": "path", "extract": {"delimiter": " ", "index": 6}}],
                "measure": {"delimiter": " ", "index": 9},
                "metrics": ["count", "sum", "avg"],
            }
        ),
    )
    for task_id in (1, 2)
]


def line(path: str = "/", size: str = "100", stamp: str = "17/May/2015:10:05:03 +0000") -> bytes:
    return f'h - - [{stamp}] "GET {path} HTTP/1.1" 200 {size}'.encode()


def plan(limits: Limits | None = None) -> EnginePlan:
    ranges = {(1, 1): [Range.of({})], (2, 1): [Range.of({0: 2}, {0: 3})]}
    return EnginePlan.of(TASKS, limits or Limits(), TopicSpec(name="logs"), ranges)


def records(*lines: bytes) -> pa.RecordBatch:
    size = len(lines)
    columns = [
        pa.array([0] * size, pa.int32()),
        pa.array(range(size), pa.int64()),
        pa.array([0] * size, pa.int64()),
        pa.array(["web1"] * size),
        pa.array(["a.log"] * size),
        pa.array(range(0, 1000 * size, 1000), pa.int64()),
        pa.array(lines, pa.binary()),
        pa.nulls(size, pa.bool_()),  # as older files of the archive have it
        pa.nulls(size, pa.int32()),
        pa.nulls(size, pa.string()),
        pa.nulls(size, pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LINE_SCHEMA)


def test_only_lines_of_the_day_by_their_own_time() -> None:
    batch = records(
        line(stamp="17/May/2015:00:00:00 +0000"),
        line(stamp="17/May/2015:23:59:59 +0000"),
        line(stamp="18/May/2015:00:00:00 +0000"),
        line(stamp="18/May/2015:01:30:00 +0200"),  # still the 17th in UTC
        b"no time",
    )
    (found,) = of_day(iter([batch]), DAY, plan())
    assert found.column("offset").to_pylist() == [0, 1, 3]


def test_a_line_without_an_identity_is_known_by_its_place_in_kafka() -> None:
    batch = records(line())
    lost = batch.set_column(3, LINE_SCHEMA.field("host"), pa.array([None], pa.string()))
    (found,) = of_day(iter([lost]), DAY, plan())
    assert found.select(["host", "src_file", "src_offset"]).to_pylist() == [
        {"host": "kafka", "src_file": "logs/0", "src_offset": 0}
    ]


def test_a_forged_line_has_its_place_in_kafka_and_a_reason() -> None:
    """As online: `count` gives the same reason, whatever else is wrong with the line."""
    batch = records(line(), line(), line() + b"x" * 100)
    batch = batch.set_column(7, LINE_SCHEMA.field("forged"), pa.array([False, True, True]))
    (day,) = of_day(iter([batch]), DAY, plan())
    found = reasons(day, Limits(line_bytes=90), PLACES.empty_table())
    assert found.to_pylist() == [None, "forged", "forged"]
    assert count(batch, plan(Limits(line_bytes=90))).reason.to_pylist() == [None, "forged", "forged"]


def test_what_kafka_could_not_give_is_dead_for_the_same_reason_in_both_layers() -> None:
    batch = records(line(), line(), line())
    why = ["undecodable: the checksum: wrong", None, "too_large: gzip"]
    batch = batch.set_column(9, LINE_SCHEMA.field("unreadable"), pa.array(why, pa.string()))
    (day,) = of_day(iter([batch]), DAY, plan())
    expected = ["undecodable", None, "too_large"]
    assert reasons(day, Limits(), PLACES.empty_table()).to_pylist() == expected
    assert count(batch, plan(Limits())).reason.to_pylist() == expected


def logs(*lines: bytes, limits: Limits | None = None, places: pa.Table | None = None) -> pa.RecordBatch:
    (day,) = of_day(iter([records(*lines)]), DAY, plan(limits))
    unique = pa.RecordBatch.from_arrays(
        [*day.columns, pa.array([1] * len(day), pa.int64())], [*day.schema.names, "copies"]
    )
    (found,) = to_logs(iter([unique]), limits or Limits(), places or PLACES.empty_table())
    return found


def test_dead_letters_are_the_engines() -> None:
    long, short = line("/" + "x" * 2000), line("/" + "x" * 700)
    assert logs(long, short).column("reason").null_count == 2  # only a task with its path skips the first
    assert logs(short, limits=Limits(line_bytes=500)).column("reason").to_pylist() == ["line over 500 bytes"]


def test_a_line_that_an_earlier_release_gave_up_for_all_tasks_stays_given_up() -> None:
    """Online no task counted it; computed again, its day must not have it."""
    place = {"partition": 0, "offset": 1, "line_in_record": 0}
    others = [{**place, "partition": 1}, {**place, "line_in_record": 3}, {**place, "offset": 9}]
    places = pa.Table.from_pylist([*others, place], PLACES)
    assert logs(line(), line(), line(), places=places)["reason"].to_pylist() == [None, REASON, None]


def test_what_became_of_the_lines_comes_with_the_partials() -> None:
    reckoning, long = Reckoning(), line("/" + "x" * 2000)
    text = [line(), long, b"[17/May/2015:10:05:03 +0000]", line("/a")]
    list(to_partials(iter([logs(*text)]), plan(), plan(), reckoning=reckoning))
    tallies, skipped = reckoning.tables
    found = {(row["task_id"], *(row[name] for name in COUNTS)) for row in tallies.to_pylist()}
    # The topic once; of its tasks the first counts all offsets, the second the third alone, and both twice.
    assert found == {(0, 3, 0, 1, 0), (1, 4, 0, 2, 2), (2, 0, 0, 2, 0)}
    assert len(skipped) == 7


def results(*lines: bytes) -> list[dict[str, object]]:
    partials = list(to_partials(iter([logs(*lines)]), plan()))
    found = pa.Table.from_batches(to_results(iter(partials), TASKS), schema=RESULTS)
    return found.to_pylist()


def test_results_and_accumulators_of_a_series() -> None:
    (row,) = results(line("/a_b", "100"), line("/a_b", "-"))
    assert (row["task"], row["series"]) == ("bytes1", "/a%5Fb")
    assert row["dims"] == [("path", "/a_b")]
    assert row["results"] == [("count", 2.0), ("sum", 100.0), ("avg", 100.0)]
    accumulators = dict(row["accumulators"])
    assert int.from_bytes(accumulators["lines"], "little") == 2
    assert int.from_bytes(accumulators["isum"], "little") == 100
    assert "fractions" not in accumulators


def test_a_metric_without_a_value_is_left_out() -> None:
    (row,) = results(line("/", "-"))
    assert row["results"] == [("count", 1.0)]


def test_a_version_counts_its_own_offsets() -> None:
    rows = results(line(), line(), line(), line())
    assert {row["task"]: dict(row["results"])["count"] for row in rows} == {"bytes1": 4.0, "bytes2": 1.0}


def test_no_lines_make_no_rows() -> None:
    assert list(to_partials(iter([]), plan())) == []
    assert list(to_results(iter([]), TASKS)) == []
    assert list(to_results(iter(partials_schema().empty_table().to_batches()), TASKS)) == []


def test_a_redacted_line_of_the_day_keeps_its_copies_from_being_counted() -> None:
    """It comes first, so a copy that was sent again later is a double of it; no task counts either."""
    lines = records(line(), line("/other"))
    erased = redact(
        pa.Table.from_batches([lines]), np.array([True, False]), 7, *event_time(lines["line"], TopicSpec())
    )
    (found,) = of_day(iter(erased.to_batches()), DAY, plan())
    assert found.column("src_offset").to_pylist() == [0, 1000]
    assert found.column("event_ms").to_pylist()[0] == DAY.start_ms
    assert reasons(found, Limits(), PLACES.empty_table()).to_pylist() == ["redacted", None]
