from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.schema import KEYS, partials_schema
from sluice.engine.set_aside import TasksFailed
from sluice.state import merging as module
from sluice.state.blocks import BadBlock, BlockId, bucket_hash, pack, period_prefix, unpack, unpack_touched
from sluice.state.merging import Changes, Touch, merge_into_blocks
from sluice.storage.tables.epochs import PeriodKey
from tests.engine.samples import ALL_METRICS, BYTES, line, plan, records, spec
from tests.examples import examples

CLIENTS = spec(
    dimensions=[{"name": "client", "extract": {"delimiter": " ", "index": 0}}],
    metrics=ALL_METRICS,
    measure=BYTES,
)


class Store:
    """State as the speed layer keeps it: newest blocks by name, and each period's layout."""

    def __init__(self) -> None:
        self.blocks: dict[BlockId, bytes] = {}
        self.layouts: dict[PeriodKey, int] = {}
        self.loads: list[list[BlockId]] = []
        self.columns: dict[BlockId, int] = {}  # the batch that wrote each
        self.seq = 0

    def load(self, ids: Sequence[BlockId]) -> Mapping[BlockId, bytes]:
        self.loads.append(list(ids))
        return {i: self.blocks[i] for i in ids if i in self.blocks}

    def apply(self, partials: pa.Table) -> Changes:
        self.seq += 1
        touch = Touch(self.seq, self.columns.__getitem__)
        changes = merge_into_blocks(partials, self.layouts, self.load, touch=touch)
        for old in changes.removed:
            del self.blocks[old]  # fails if a removed block was not there
        self.blocks |= changes.blocks
        self.columns |= dict.fromkeys(changes.blocks, self.seq)
        self.layouts |= {i.period: i.layout for i in changes.blocks}
        return changes


def rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=lambda r: tuple(str(r[k]) for k in KEYS))


def partials(clients: Sequence[int], hour: int = 10) -> pa.Table:
    at = datetime(2015, 5, 17, hour, tzinfo=UTC)
    lines = [line(client=f"client-{c}", at=at, size=str(c)) for c in clients]
    return count(records(lines), plan(CLIENTS, spec(name="by_status"))).partials


@examples(12)
@given(st.lists(st.tuples(st.lists(st.integers(0, 60), max_size=60), st.integers(0, 2)), max_size=5))
def test_blocks_hold_the_merge_of_everything_whatever_their_layout(
    found: list[tuple[list[int], int]],
) -> None:
    store, batches = Store(), [partials_schema().empty_table()]
    seqs: dict[tuple[object, ...], int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LIMIT", 2000)  # so that a few series outgrow a block
        for clients, hour in found:
            batch = partials(clients, hour)
            batches.append(batch)
            store.apply(batch)
            whole = merge(pa.concat_tables(batches))
            assert rows(unpack(store.blocks)) == rows(whole)
            seqs |= {tuple(r[k] for k in KEYS): store.seq for r in batch.to_pylist()}
            series, touched = unpack_touched(store.blocks, store.columns.__getitem__)
            names = [tuple(r[k] for k in KEYS) for r in series.to_pylist()]
            assert dict(zip(names, touched.tolist(), strict=True)) == seqs
            for block, data in store.blocks.items():
                assert len(data) <= 2000
                assert block.layout == store.layouts[block.period]
                keys = unpack({block: data}).column("key").combine_chunks()
                assert block.layout == 1 or set((bucket_hash(keys) % block.layout).tolist()) == {block.bucket}


@pytest.mark.slow
def test_a_period_that_outgrows_its_block_moves_to_more() -> None:
    store = Store()
    store.apply(partials(range(5_000)))
    clients = [b for b in store.blocks if b.task_id == 1]
    assert len(clients) == 1
    changes = store.apply(partials(range(5_000, 20_000)))
    assert changes.removed == clients
    after = [b for b in store.blocks if b.task_id == 1]
    assert {b.layout for b in after} == {len(after)}
    assert max(map(len, store.blocks.values())) < module.LIMIT
    # Once the period is laid out, a batch reads only the blocks that it touches.
    store.loads.clear()
    store.apply(partials([7]))
    assert [len([b for b in ids if b.task_id == 1]) for ids in store.loads] == [1]


def test_one_series_larger_than_the_limit_stays_whole() -> None:
    store = Store()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LIMIT", 100)
        store.apply(partials([1]))
    assert len([b for b in store.blocks if b.task_id == 1]) == 1


def test_a_batch_reads_and_writes_only_what_it_touches() -> None:
    store = Store()
    for hour in range(4):
        store.apply(partials([1, 2], hour))
    store.loads.clear()
    changes = store.apply(partials([1], 2))
    assert {b.period_start for b in changes.blocks} == {1431828000000}  # 02:00
    assert sorted(store.loads[0]) == sorted(changes.blocks)


def test_an_empty_batch_changes_nothing() -> None:
    changes = merge_into_blocks(
        partials_schema().empty_table(), {}, lambda ids: pytest.fail("nothing to load")
    )
    assert not changes.blocks


def test_columns_that_a_task_does_not_need_are_not_stored() -> None:
    table = merge(count(records([line()]), plan(spec())).partials)
    data = pack(table)
    assert pa.ipc.open_stream(data).read_all().schema.names == ["key", "lines"]
    assert unpack({BlockId(1, 1, table["period_start"][0].as_py(), 1, 0): data}).equals(table)


def test_many_rows_are_compressed() -> None:
    table = merge(partials(range(3000))).slice(0, 3000)
    assert len(pack(table)) < table.nbytes / 2


def test_names() -> None:
    block = BlockId(3, 2, 1431857100000, 4, 1)
    assert block.row == "3v2/1431857100000/4/1"
    assert block.row.encode().startswith(period_prefix(block.period))
    assert not BlockId(3, 2, 14318571000001, 4, 1).row.encode().startswith(period_prefix(block.period))


def test_damage_names_the_block() -> None:
    block = BlockId(3, 2, 0, 1, 0)
    with pytest.raises(BadBlock, match="3v2/0/1/0 is damaged"):
        unpack({block: b"garbage"})


def test_the_hash_never_changes() -> None:
    assert bucket_hash(pa.array(["", "200", "é_"])).tolist() == [
        0xB4B2797457A0A6E4,
        0xBC935901F5456BC8,
        0x610394F6FCBA412B,
    ]


@pytest.mark.slow
def test_much_state_is_merged_a_few_versions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, portioned = Store(), Store()
    batches = [partials(range(n, n + 300), hour=10 + n % 2) for n in range(0, 900, 100)]
    for batch in batches:
        at_once.apply(batch)
    monkeypatch.setattr(module, "BYTES_A_MERGE", 1_000)
    for batch in batches:
        portioned.apply(batch)
    assert len(portioned.loads) == len(at_once.loads)
    assert rows(unpack(portioned.blocks)) == rows(unpack(at_once.blocks))
    assert portioned.layouts == at_once.layouts


def test_a_version_whose_state_is_too_large_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    store.apply(partials(range(2_000)))
    monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    with pytest.raises(TasksFailed, match="fewer sketched metrics") as raised:
        store.apply(partials([1]))
    assert set(raised.value.failures) == {(1, 1)}
