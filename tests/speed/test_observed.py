"""What operators read of a batch: how long lines waited, what tasks took and skipped."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.plan import EnginePlan
from sluice.engine.wire import FOUND
from sluice.runtime.sections import Limits
from sluice.speed import observed
from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.progress import SpeedProgress
from tests.engine.samples import BYTES, active, line, spec
from tests.messages import ARRIVAL, Message, decoded, unsigned

NOW = ARRIVAL


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 5)), min_size=1, max_size=50))
def test_every_line_falls_into_the_bucket_of_its_wait_up_to_a_tenth(waits: list[tuple[int, int]]) -> None:
    """Lines whose age is within a tenth of a bound may be on either side of it."""
    messages = [
        Message(n, b"\n".join([b"x"] * lines), [], NOW - wait) for n, (wait, lines) in enumerate(waits)
    ]
    batch = pa.concat_batches(
        [_block(message, lines) for message, (_, lines) in zip(messages, waits, strict=True)]
    )
    found = observed.freshness(observed.arrivals(batch, NOW), NOW)
    assert sum(found.lines.values()) == sum(lines for _, lines in waits)
    names, cumulated = list(found.lines), 0
    for name, bound in zip(names, observed.BOUNDS, strict=False):
        cumulated += found.lines[name]
        surely = sum(lines for wait, lines in waits if wait <= bound * 1000)
        perhaps = sum(lines for wait, lines in waits if wait * 0.9 - 10 <= bound * 1000)
        assert surely <= cumulated <= perhaps
    whole = sum(wait * lines for wait, lines in waits)
    assert whole * 0.9 - 10 * sum(found.lines.values()) <= found.milliseconds <= whole
    assert observed.newest(observed.arrivals(batch, NOW)) == NOW - min(wait for wait, _ in waits)


def _block(message: Message, lines: int) -> pa.RecordBatch:
    """A record of so many lines, numbered here: a record without identity has a single one."""
    one = decoded(0, [Message(message.offset, b"x", [], message.timestamp)])
    many = pa.concat_batches([one] * lines)
    place = many.schema.get_field_index("line_in_record")
    return many.set_column(place, many.schema.field(place), pa.array(range(lines), pa.int32()))


def test_a_long_backlog_of_single_lines_is_a_short_table() -> None:
    batch = decoded(0, [Message(n, b"x", [], NOW - n * 1_000) for n in range(20_000)])
    assert observed.arrivals(batch, NOW).num_rows < 1_000


def test_tasks_say_what_they_took_and_what_had_no_measure() -> None:
    tasks = active(spec(), spec(name="sizes", measure=BYTES, metrics=["sum"]))
    work = PartitionPass(EnginePlan.of(tasks, Limits()), "logs", ByteLedger().to_table())
    lines = [line(size=size) for size in ("1", "-", "2", "-", "-")]
    rows = [
        pa.Table.from_batches(list(work([unsigned([*lines, b"no line"], number)])), FOUND)
        for number in (0, 1)
    ]
    found = Gathered.of(pa.concat_tables(rows))
    assert observed.by_label(found.taken, "lines") == {"1v1": 10, "2v1": 10}
    assert observed.by_label(found.taken, "skipped") == {"2v1": 6}
    assert observed.by_reason(found.dead_letters) == {"no event time": 2}
    assert sum(found.arrived["lines"].to_pylist()) == 12


def test_a_batch_without_lines_has_nothing_to_say() -> None:
    empty = observed.ARRIVED.empty_table()
    assert observed.newest(empty) is None
    assert set(observed.freshness(empty, NOW).lines.values()) == {0}


def test_the_progress_adds_sums_up_and_replaces_the_rest(tmp_path: Path) -> None:
    progress = SpeedProgress(tmp_path / "progress.json")
    progress.batch("logs", {"lines": 1}, {"freshness": {"1": 1}}, seq=1)
    progress.batch("logs", {"lines": 2}, {"freshness": {"1": 1, "2": 1}}, seq=2)
    shown = progress.topics["logs"]
    assert (shown.lines, shown.freshness, shown.seq) == (3, {"1": 2, "2": 1}, 2)


def test_the_progress_forgets_versions_that_are_not_counted_any_more(tmp_path: Path) -> None:
    progress = SpeedProgress(tmp_path / "progress.json")
    for version in range(1, 50):
        label = f"1v{version}"
        progress.batch("logs", {}, {"task_lines": {label: 1, "2v1": 1}}, tasks=[label, "2v1"])
    assert progress.topics["logs"].task_lines == {"1v49": 1, "2v1": 49}
