"""When each line came into Kafka, by its identity."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from kafka import KafkaConsumer, TopicPartition
from numpy.typing import NDArray

from sluice.runtime.settings import Settings
from sluice.transmission.identity import records
from sluice.transmission.line_schema import HOST, SRC_FILE, SRC_OFFSET
from sluice.transmission.mac import identity_key
from sluice.transmission.reading import reader
from sluice.transmission.topics import Topics
from sluice_lab.placement.live.scenarios import LINE_BYTES
from sluice_lab.placement.live.writing import Times

#: Time without a line after which the missing lines count as lost.
PATIENCE_SECONDS = 90.0
_POLL_MS = 500
NEVER = np.iinfo(np.int64).max

Places = dict[TopicPartition, int]


@dataclass
class Arrived:
    """The lines of one front-end's file. first: when each came for the first time. copies: how often."""

    first: Times
    copies: NDArray[np.int64]


@dataclass(frozen=True)
class Account:
    """All lines of a run. strange: lines without a proved identity, or that nobody wrote."""

    files: Mapping[str, Arrived]
    strange: int = 0

    @property
    def lost(self) -> int:
        """Lines that are not in Kafka."""
        return sum(int((each.copies == 0).sum()) for each in self.files.values())

    @property
    def twice(self) -> int:
        """Lines that are there more than once, known by their identity."""
        return sum(int((each.copies > 1).sum()) for each in self.files.values())


def ends(settings: Settings, topic: str) -> Places:
    """Where each partition's log ends now."""
    with Topics(settings) as topics:
        places = [TopicPartition(topic, number) for number in topics.describe(topic).partitions]
    with closing(_consumer(settings)) as consumer:
        return dict(consumer.end_offsets(places))


def account(
    settings: Settings,
    begin: Places,
    day: str,
    written: Mapping[str, Times],
    patience: float = PATIENCE_SECONDS,
) -> Account:
    """Read from these places on until every line of the day's files is there, and what is there now is read.

    Gives up when no line came for `patience` seconds.
    """
    files = {
        name: Arrived(np.full(len(at), NEVER, np.int64), np.zeros(len(at), np.int64))
        for name, at in written.items()
    }
    counter = _Counter(files, day)
    key = identity_key(settings)
    with closing(_consumer(settings)) as consumer:
        consumer.assign(list(begin))
        for at, offset in begin.items():
            consumer.seek(at, offset)
        last = time.monotonic()
        while time.monotonic() - last < patience:
            found = consumer.poll(timeout_ms=_POLL_MS)
            for at, messages in found.items():
                for batch in records(at.partition, messages, key):
                    counter.add(batch)
            if found:
                last = time.monotonic()
            elif counter.whole() and _at_end(consumer, list(begin)):
                break
    return Account(files, counter.strange)


class _Counter:
    def __init__(self, files: Mapping[str, Arrived], day: str) -> None:
        self._files, self._day = files, day
        self.strange = 0

    def whole(self) -> bool:
        return all(each.copies.all() for each in self._files.values())

    def add(self, batch: pa.RecordBatch) -> None:
        """Count lines: the place of one in its file says which it is, because all have one length."""
        names = pc.binary_join_element_wise(
            pc.fill_null(batch.column(HOST), ""), pc.fill_null(batch.column(SRC_FILE), ""), "\0"
        ).dictionary_encode()
        which = names.indices.to_numpy(zero_copy_only=False)
        offsets = pc.fill_null(batch.column(SRC_OFFSET), -1).to_numpy(zero_copy_only=False)
        lengths = pc.binary_length(batch.column("line")).to_numpy(zero_copy_only=False)
        arrivals = batch.column("arrival").to_numpy(zero_copy_only=False)
        good = (offsets % LINE_BYTES == 0) & (lengths == LINE_BYTES - 1)
        for number, name in enumerate(names.dictionary.to_pylist()):
            host, _, path = name.partition("\0")
            each, mine = self._files.get(host), which == number
            if each is None or PurePath(path).name != f"{host}.{self._day}.log":
                self.strange += int(mine.sum())
                continue
            lines = offsets // LINE_BYTES
            known = mine & good & (lines < len(each.first))
            self.strange += int((mine & ~known).sum())
            np.minimum.at(each.first, lines[known], arrivals[known])
            np.add.at(each.copies, lines[known], 1)


def _at_end(consumer: KafkaConsumer, places: list[TopicPartition]) -> bool:
    return all(consumer.position(at) >= end for at, end in consumer.end_offsets(places).items())


def _consumer(settings: Settings) -> KafkaConsumer:
    return reader(
        settings.kafka,
        client_id="sluice-lab",
        # The lines of an agent that was about to end; by default a fetch has 1 MiB of a partition.
        max_partition_fetch_bytes=8 << 20,
        max_poll_records=2_000,
    )
