"""Eras that the archive's files name and the definitions lack: they began after these were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from sluice.runtime.positions import Era, PartitionLog, era_of, offset_of
from sluice.storage.tables import eras, schema
from sluice.transmission.topics import Topics


@dataclass(frozen=True)
class FilePositions:
    """The positions [first, next) of an archive file, and the topic that they are of."""

    topic_id: str
    partition: int
    first: int
    next: int


def complete(database: sa.Engine, topics: Topics, topic: str) -> None:
    """Book the missing eras, as open: what Kafka lost then may be sent again.

    Their epoch is that of the leader now. Without them, what comes would get positions of an era before, and
    nobody would read it. Raises TopicMissing, KafkaError.
    """
    t = schema.archive_files.c
    query = sa.select(t.topic_id, t.partition, t.first, t.next).where(t.topic == topic)
    with database.connect() as connection:
        rows = connection.execute(query.order_by(t.partition, t.first)).all()
    files = [FilePositions(**row._mapping) for row in rows]
    known = eras.logs(database, topic)
    wanted = {file.partition for file in files if era_of(file.next) > _newest(known, file.partition)}
    if wanted:
        ends = topics.log_ends(topic, sorted(wanted))
        eras.add(database, topic, missing(known, files, {number: ends[number].epoch for number in wanted}))


def missing(
    known: Mapping[int, PartitionLog], files: list[FilePositions], epochs: Mapping[int, int]
) -> list[tuple[int, Era]]:
    """The missing eras with their partitions. files: in order; epochs: of the leaders now."""
    found: list[tuple[int, Era]] = []
    newest = {file.partition: _newest(known, file.partition) for file in files}
    for file in files:
        era = era_of(file.next)
        if era <= newest[file.partition]:
            continue
        newest[file.partition] = era
        seam = era_of(file.first) < era  # it lies between the eras, and ends where the later one begins
        begins, reached = (
            (offset_of(file.next), offset_of(file.first)) if seam else (offset_of(file.first), 0)
        )
        found.append((file.partition, Era(era, file.topic_id, begins, epochs[file.partition], reached)))
    return found


def _newest(known: Mapping[int, PartitionLog], partition: int) -> int:
    return known[partition].newest.era if partition in known else 0
