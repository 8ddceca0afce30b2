"""What the audit reads of the ledger; the other sums are tested with what they are of (`folding`)."""

from __future__ import annotations

import numpy as np
import pytest

from sluice.storage.tables.topic_totals import LedgerSpans


def test_intervals_are_decoded_when_they_are_asked_for() -> None:
    starts, ends = (np.array(each, "<i8").tobytes() for each in ([0, 50], [10, 90]))
    spans = LedgerSpans({("web1", "a.log"): (starts, ends), ("web1", "b.log"): (b"broken", b"")})
    assert (sorted(spans), len(spans)) == ([("web1", "a.log"), ("web1", "b.log")], 2)
    assert [each.tolist() for each in spans["web1", "a.log"]] == [[0, 50], [10, 90]]
    assert spans.get(("web2", "a.log")) is None
    assert not LedgerSpans()
    with pytest.raises(ValueError, match="buffer size"):
        spans["web1", "b.log"]
