from __future__ import annotations

import time

import pyarrow as pa
import pytest

from sluice.engine.plan import EnginePlan
from sluice.engine.wire import FOUND
from sluice.runtime.sections import Limits
from sluice.speed import partition_pass
from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import Gathered, PartitionPass
from tests.engine.samples import active, line, spec
from tests.messages import unsigned

CLIENT = {"name": "client", "extract": {"delimiter": " ", "index": 0}}


def test_many_dead_letters_are_shortened_but_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_pass, "DEAD_BYTES", 1_000)
    letters = found([b"no log line " * 50] * 100).dead_letters
    assert letters.num_rows == 100
    assert {len(line) for line in letters.column("line").to_pylist()} == {10}
    assert set(letters.column("bytes").to_pylist()) == {600}


@pytest.mark.slow
def test_the_time_that_counting_took_is_summed_over_slices() -> None:
    lines = [line(client=f"c{n}") for n in range(5_000)]
    began = time.process_time()
    one, other = found(lines, 0), found(lines, 1)
    spent = (time.process_time() - began) * 1e6
    assert 0 < one.pass_us + other.pass_us < spent
    rows = [pa.Table.from_batches(list(WORK([unsigned(lines, number)])), FOUND) for number in (0, 1)]
    each = [Gathered.of(own).pass_us for own in rows]
    assert Gathered.of(pa.concat_tables(rows)).pass_us == sum(each)
    assert found([]).pass_us == 0


WORK = PartitionPass(
    EnginePlan.of(active(spec(dimensions=[CLIENT])), Limits()), "logs", ByteLedger().to_table()
)


def found(lines: list[bytes], partition: int = 0) -> Gathered:
    """What the pass finds in lines without identity, each a record."""
    return Gathered.of(pa.Table.from_batches(list(WORK([unsigned(lines, partition)])), FOUND))
