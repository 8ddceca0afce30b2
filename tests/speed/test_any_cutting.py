"""However files are cut into records, each line counts once and is archived once a record."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.archive import footer as footers
from sluice.archive.buffer import Buffer
from sluice.archive.file import ArchivedPartition, ArchiveFile, of_records
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan
from sluice.engine.wire import FOUND
from sluice.runtime.sections import Archive, Limits
from sluice.speed.doubles import gather
from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import PartitionPass
from sluice.transmission.identity import records
from tests.engine.samples import active, line, spec
from tests.examples import examples
from tests.identities import KEY
from tests.messages import Message, block, decoded
from tests.speed.routed.stages import Merged

pytestmark = pytest.mark.slow

PATHS = ["/", "/a", "/b_c", "/long" * 20]
TASK = active(spec(dimensions=[{"name": "path", "extract": {"delimiter": " ", "index": 6}}]))
PLAN = EnginePlan.of(TASK, Limits())
PARTITIONS = 3
FILES = ("a.log", "b.log")

texts = st.one_of(
    st.sampled_from(PATHS).map(lambda path: line(path=path)), st.sampled_from([b"", b"no time\r"])
)


@dataclass
class Delivered:
    """What came out of Kafka: the messages of each partition, cut into micro-batches."""

    files: dict[str, list[bytes]]
    partitions: dict[int, list[Message]]
    batches: list[dict[int, list[Message]]]
    unique: Counter[tuple[str, int]]  # how often each line of a file was delivered
    strangers: int


@st.composite
def deliveries(draw: st.DrawFn) -> Delivered:
    """Two files in blocks of any size, each line at least once, and records that are not of any file."""
    files = {name: draw(st.lists(texts, min_size=1, max_size=9)) for name in FILES}
    cuts: list[tuple[str, int, int]] = []
    for name, lines in files.items():
        for single in (True, False):  # the second copy is cut anew, and need not be whole
            ends = range(1, len(lines)) if draw(st.booleans()) else draw(_ends(len(lines)))
            bounds = [0, *ends, len(lines)]
            pieces = [(name, a, b) for a, b in pairwise(bounds)]
            cuts += pieces if single else [piece for piece in pieces if draw(st.booleans())]
    order = draw(st.permutations([*cuts, *([None] * draw(st.integers(0, 2)))]))
    partitions: dict[int, list[Message]] = {number: [] for number in range(PARTITIONS)}
    batches: list[dict[int, list[Message]]] = [defaultdict(list)]
    delivered: Counter[tuple[str, int]] = Counter()
    for piece in order:
        partition = draw(st.integers(0, PARTITIONS - 1))
        offset = len(partitions[partition])
        if piece is None:
            message = Message(offset, line() + b"\n" + line(), [("host", b"web1")])
        else:
            name, first, last = piece
            begin = sum(len(each) + 1 for each in files[name][:first])
            message = block(offset, name, begin, files[name][first:last])
            delivered.update((name, number) for number in range(first, last))
        partitions[partition].append(message)
        batches[-1][partition].append(message)
        if draw(st.integers(0, 3)) == 0:
            batches.append(defaultdict(list))
    return Delivered(files, partitions, batches, delivered, order.count(None))


def _ends(lines: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, max(1, lines - 1)), unique=True, max_size=lines - 1).map(sorted)


@examples(60)
@given(deliveries())
def test_any_cutting_gives_the_same_counts(given_: Delivered) -> None:
    ledger, recent, partials, counts = ByteLedger(), [], [], Counter[str]()
    for batch in given_.batches:
        found, added = gather(lambda known, dealt, batch=batch: _run(batch, known, dealt), ledger, recent)
        ledger.update(added)
        recent = added.files()
        partials.append(found.partials)
        counts.update(found.counts)
    lines = [(name, number) for name, own in given_.files.items() for number in range(len(own))]
    every = [given_.files[name][number] for name, number in lines]
    alive = [each for each in every if b"GET" in each] + [line() + b"\n" + line()] * given_.strangers
    expected = Counter(each.split(b" ")[6].decode().replace("_", "%5F") for each in alive)
    merged = merge(pa.concat_tables(partials))
    assert dict(zip(*(merged.column(name).to_pylist() for name in ("key", "lines")), strict=True)) == expected
    came = sum(given_.unique.values()) + given_.strangers
    assert counts["lines"] == came
    assert counts["doubled"] == came - len(lines) - given_.strangers
    assert counts["dead"] == len(every) + given_.strangers - len(alive)
    for name, own in given_.files.items():
        size = sum(len(each) + 1 for each in own)
        assert ledger.covered("web1", name) == size
        assert len(ledger.holes("web1", name, size)) == 0


@examples(60)
@given(deliveries(), st.integers(1, 12))
def test_any_cutting_gives_the_same_rows_in_the_archive(given_: Delivered, most: int) -> None:
    for partition, messages in given_.partitions.items():
        files = _archived(partition, messages, most)
        rows: list[dict[str, Any]] = []
        position = 0
        for each in files:
            said = footers.parse("f", each.data)
            own = pq.read_table(pa.BufferReader(each.data)).to_pylist()
            offsets = {row["offset"] for row in own}
            assert (said.first, said.next) == (position, max(offsets) + 1)
            assert (said.records, said.lines, said.skipped) == (len(offsets), len(own), 0)
            position = said.next
            rows += own
        assert position == len(messages)
        assert [_place(row) for row in rows] == [row for each in messages for row in _by_hand(each)]


def _run(batch: dict[int, list[Message]], known: pa.Table, dealt: bool) -> Merged:
    """The pass over each partition, or over each file's records from all partitions."""
    slices: dict[Any, list[pa.RecordBatch]] = defaultdict(list)
    for partition, messages in sorted(batch.items()):
        for message in messages:
            of = dict(message.headers).get("src_file") if dealt else partition
            slices[of].append(decoded(partition, [message]))
    work = PartitionPass(PLAN, "logs", known)
    found = [each for own in slices.values() for each in work(own)]
    return Merged.of(pa.Table.from_batches(found, FOUND))


def _archived(partition: int, messages: list[Message], most: int) -> list[ArchiveFile]:
    """The messages in files of about so many lines, as the archiver makes them."""
    place, files, limits = (
        ArchivedPartition("logs", "id", partition),
        list[ArchiveFile](),
        Archive(max_lines=most),
    )
    buffer = Buffer(limits)

    def flush() -> None:
        first = files[-1].footer.next if files else 0
        files.append(of_records(place, first, buffer.batches, generation=1))

    for rest in records(partition, messages, KEY):
        while len(rest):
            rest = buffer.add(rest)  # noqa: PLW2901 - what the file does not take any more
            if buffer.due():
                flush()
                buffer = Buffer(limits)
    if buffer.lines:
        flush()
    return files


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("offset", "line_in_record", "src_file", "src_offset", "line"))


def _by_hand(message: Message) -> list[tuple[Any, ...]]:
    headers, body = dict(message.headers), message.value or b""
    if "mac" not in headers:
        return [(message.offset, 0, None, None, body)]
    found, begin = [], int(headers["src_offset"])
    for number, text in enumerate(body.split(b"\n")):
        found.append((message.offset, number, headers["src_file"].decode(), begin, text))
        begin += len(text) + 1
    return found
