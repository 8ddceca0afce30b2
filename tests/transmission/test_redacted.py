"""A redacted line keeps its place, its identity and its length, and both layers refuse it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.engine.count import count
from sluice.engine.parse import event_time
from sluice.engine.plan import EnginePlan
from sluice.runtime.days import DAY_MS
from sluice.runtime.sections import Limits
from sluice.tasks.spec import ActiveTask, TaskSpec
from sluice.tasks.topic_spec import TopicSpec
from sluice.transmission.line_identity import identify
from sluice.transmission.line_schema import UNREADABLE
from sluice.transmission.redacted import are_redacted, redact, with_days
from tests.archive.local_archive import batch, line

LINES = [line(17), line(18, 3), b"no time in here", b"", line(17, 9)]
DAYS = ["2015-05-17", "2015-05-18"]


def redacted(*which: int) -> pa.RecordBatch:
    lines = batch(range(len(LINES)), LINES, [0] * len(LINES))
    chosen = np.isin(np.arange(len(LINES)), which)
    table = redact(pa.Table.from_batches([lines]), chosen, 12, *event_time(lines.column("line"), TopicSpec()))
    return table.combine_chunks().to_batches()[0]


def test_nothing_of_a_line_is_left_but_its_length_and_its_day() -> None:
    found = redacted(1, 2, 3)
    assert found.column("line").to_pylist() == [LINES[0], b"-" * len(LINES[1]), b"-" * 15, b"", LINES[4]]
    assert found.column(UNREADABLE).to_pylist() == [
        None,
        "redacted: by erasure 12, of 2015-05-18",
        "redacted: by erasure 12",
        "redacted: by erasure 12",
        None,
    ]
    before = batch(range(len(LINES)), LINES, [0] * len(LINES))
    kept = [name for name in before.schema.names if name not in ("line", UNREADABLE)]
    assert found.select(kept).equals(before.select(kept))
    assert found.schema == before.schema


def test_it_has_the_bytes_of_its_file_as_before() -> None:
    before = batch(range(len(LINES)), LINES, [0] * len(LINES))
    found, ends = identify(redacted(0, 1, 2, 3), "logs")
    assert ends.tolist() == identify(before, "logs")[1].tolist()
    assert found.column("src_offset").equals(before.column("src_offset"))


def test_it_is_of_its_day_and_of_none_if_it_had_no_time() -> None:
    found = redacted(1, 2)
    ms, timed = with_days(found, *event_time(found.column("line"), TopicSpec()))
    assert timed.tolist() == [True, True, False, False, True]
    assert str(np.datetime64(int(ms[1]), "ms")) == "2015-05-18T00:00:00.000"
    assert ms[0] % DAY_MS
    assert are_redacted(found).tolist() == [False, True, True, False, False]
    whole = redacted()
    assert not are_redacted(whole).any()
    ms, timed = event_time(whole.column("line"), TopicSpec())
    assert with_days(whole, ms, timed)[0] is ms


def test_no_task_counts_it() -> None:
    spec = TaskSpec.model_validate({"name": "hits", "topic": "logs", "period": "1h", "metrics": ["count"]})
    plan = EnginePlan.of([ActiveTask(1, 1, spec)], Limits(), TopicSpec())
    lines = redacted(0, 1)
    genuine = lines.set_column(7, lines.schema.field(7), pa.array([False] * len(lines)))
    found = count(genuine, plan)
    assert found.reason.to_pylist() == ["redacted", "redacted", "no event time", "no event time", None]
    assert sum(found.tallies["counted"].to_pylist()) == 2  # by the task and by the topic's format
