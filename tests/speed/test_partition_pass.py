from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.engine.plan import EnginePlan
from sluice.runtime.settings import Limits
from sluice.speed import partition_pass
from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import Gathered, PartitionPass
from tests.messages import unsigned


def test_many_dead_letters_are_shortened_but_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_pass, "DEAD_BYTES", 1_000)
    records = unsigned([b"no log line " * 50] * 100)
    work = PartitionPass(EnginePlan.of([], Limits()), "logs", ByteLedger().to_table())
    letters = Gathered.of(pa.Table.from_batches(list(work([records])))).dead_letters
    assert letters.num_rows == 100
    assert {len(line) for line in letters.column("line").to_pylist()} == {10}
    assert set(letters.column("bytes").to_pylist()) == {600}
