"""What the audit reads of the ledger and of days; other sums are tested with what they are of (`folding`)."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from sluice.storage.tables import schema
from sluice.storage.tables.topic_totals import LedgerSpans, read
from tests.examples import examples
from tests.tasks.database import sqlite

FIRST = date(2024, 5, 1)


def test_intervals_are_decoded_when_they_are_asked_for() -> None:
    starts, ends = (np.array(each, "<i8").tobytes() for each in ([0, 50], [10, 90]))
    spans = LedgerSpans({("web1", "a.log"): (starts, ends), ("web1", "b.log"): (b"broken", b"")})
    assert (sorted(spans), len(spans)) == ([("web1", "a.log"), ("web1", "b.log")], 2)
    assert [each.tolist() for each in spans["web1", "a.log"]] == [[0, 50], [10, 90]]
    assert spans.get(("web2", "a.log")) is None
    assert not LedgerSpans()
    with pytest.raises(ValueError, match="buffer size"):
        spans["web1", "b.log"]


@given(
    lines=st.dictionaries(
        st.tuples(st.integers(0, 5), st.integers(0, 2)), st.tuples(st.integers(0, 9), st.integers(0, 9))
    ),
    cuts=st.dictionaries(st.integers(0, 5), st.dictionaries(st.sampled_from("012"), st.integers(0, 10))),
    gone=st.sets(st.integers(0, 5)),
)
@examples(60)
def test_days_wait_if_a_line_of_them_came_at_or_beyond_their_cut(
    lines: dict[tuple[int, int], tuple[int, int]], cuts: dict[int, dict[str, int]], gone: set[int]
) -> None:
    database, today = sqlite(), FIRST + timedelta(days=4)
    stale, to_come = [], {}
    for n in sorted({n for n, _ in lines}):
        own = {partition: at for (day, partition), at in lines.items() if day == n}
        name = str(FIRST + timedelta(days=n))
        if n in gone:
            continue
        if n not in cuts and n >= 4:
            to_come[name] = sum(count for count, _ in own.values())
        elif n not in cuts or any(last >= cuts[n].get(str(p), 0) for p, (_, last) in own.items()):
            stale.append(name)
    with database.begin() as connection:
        for (n, partition), (count, last) in lines.items():
            row = {"topic": "logs", "day": FIRST + timedelta(days=n), "partition": partition}
            connection.execute(sa.insert(schema.event_days).values(**row, lines=count, last_offset=last))
        for n, cut in cuts.items():
            row = {"topic": "logs", "day": FIRST + timedelta(days=n), "cut": cut, "run_id": "r"}
            connection.execute(sa.insert(schema.days).values(**row, tasks_seq=1, raw_lines=2, lines=n))
        for n in gone:
            row = {"topic": "logs", "day": FIRST + timedelta(days=n)}
            connection.execute(sa.insert(schema.archive_expired_days).values(**row, lines=1))
        found = read(connection, "logs", today)
    assert (found.stale_days, found.days_to_come) == (stale, to_come)
    assert found.event_lines == sum(count for count, _ in lines.values())
    assert found.computed_lines == sum(cuts)
