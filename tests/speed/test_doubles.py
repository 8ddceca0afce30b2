"""Doubles are found wherever they come from, though a pass knows few files' intervals."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sluice.engine.plan import EnginePlan
from sluice.runtime.sections import Limits
from sluice.speed.doubles import gather
from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import Gathered, PartitionPass
from tests.messages import block, decoded

LINE = b'10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 7'
Record = tuple[int, str, int]  # partition, file, number of the line in it


class Batch:
    """A micro-batch: its slices are Kafka's partitions, or a single one if dealt by identity."""

    def __init__(self, *records: Record) -> None:
        self.records = records
        self.passes = 0

    def run(self, known: pa.Table, dealt: bool) -> Gathered:
        self.passes += 1
        work = PartitionPass(EnginePlan.of([], Limits()), "logs", known)
        slices: dict[int, list[Record]] = {}
        for record in self.records:
            slices.setdefault(0 if dealt else record[0], []).append(record)
        found = [batch for records in slices.values() for batch in work(kafka(records))]
        return Gathered.of(pa.Table.from_batches(found))


def kafka(records: list[Record]) -> Iterator[pa.RecordBatch]:
    for offset, (partition, name, number) in enumerate(records):
        yield decoded(partition, [block(offset, name, number * (len(LINE) + 1), [LINE])])


def counts(batch: Batch, ledger: ByteLedger, recent: list[tuple[str, str]]) -> tuple[int, int]:
    """How many lines were counted and how many were doubles; the batch goes into the ledger."""
    found, added = gather(batch.run, ledger, recent)
    ledger.update(added)
    return found.counts["counted"], found.counts["doubled"]


@pytest.mark.parametrize("recent", [[], ["a"], ["b"], ["a", "b"], ["c"]])
def test_files_that_come_again_together_with_new_lines(recent: list[str]) -> None:
    ledger = ByteLedger()
    assert counts(Batch((0, "a", 0), (1, "a", 1), (0, "b", 0)), ledger, []) == (3, 0)
    again = Batch((0, "a", 0), (1, "a", 1), (0, "b", 0), (1, "b", 1), (2, "c", 0))
    assert counts(again, ledger, [("web1", name) for name in recent]) == (2, 3)


def test_one_line_by_two_partitions() -> None:
    batch = Batch((0, "a", 0), (1, "a", 0))
    assert counts(batch, ByteLedger(), []) == (1, 1)
    assert batch.passes == 2


def test_new_lines_take_one_pass() -> None:
    batch = Batch((0, "a", 0), (1, "a", 1), (2, "b", 0))
    assert counts(batch, ByteLedger(), [("web1", "z")]) == (3, 0)
    assert batch.passes == 1
