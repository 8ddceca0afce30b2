"""Spans say of each period what its own row said."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluice.results.reader import PERIODS
from sluice.results.spans import spans

ORIGINS = st.sampled_from(
    [("final", None, "a"), ("final", None, "b"), ("superseded", None, "a"), ("open", 7, None)]
)


@given(origins=st.lists(ORIGINS, max_size=12))
def test_spans_have_every_period_once_and_none_could_be_longer(
    origins: list[tuple[str, int | None, str | None]],
) -> None:
    starts = [60 * n for n in range(len(origins))]
    rows = [dict(zip(PERIODS.names, (s, *o), strict=True)) for s, o in zip(starts, origins, strict=True)]
    found = spans(pa.Table.from_pylist(rows, PERIODS))
    unrolled = []
    for each in found:
        own = [start for start in starts if each["first"] <= start <= each["last"]]
        assert len(own) == each["periods"]
        unrolled += [(each["state"], each["commit"], each["run_id"])] * len(own)
    assert unrolled == origins
    named = [(each["state"], each["commit"], each["run_id"]) for each in found]
    assert all(one != other for one, other in pairwise(named))
