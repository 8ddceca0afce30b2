"""Eras that only the archive's files name, out of seams between them and of files that begin within one."""

from __future__ import annotations

from itertools import pairwise

import pytest
import sqlalchemy as sa

from sluice.backup.missing_eras import FilePositions, complete, missing
from sluice.runtime.positions import Era, PartitionLog, position_at
from sluice.storage.tables import eras, schema
from sluice.storage.tables.open_losses import open_losses
from sluice.transmission.log_ends import LogEnd
from tests.tasks.database import sqlite

EPOCHS = {0: 12, 1: 12}


def chain(partition: int, *positions: int) -> list[FilePositions]:
    return [FilePositions("id", partition, first, following) for first, following in pairwise(positions)]


FILES = [
    *chain(0, 0, 40, position_at(1, 30), position_at(1, 50), position_at(2, 45), position_at(2, 60)),
    *chain(1, 0, 40),
]
SECOND = Era(1, "id", 30, 12, 40)
THIRD = Era(2, "id", 45, 12, 50)


def known(*newest: Era) -> dict[int, PartitionLog]:
    return {0: PartitionLog((Era(0, "id", 0, 3), *newest)), 1: PartitionLog((Era(0, "id", 0, 3),))}


def test_each_era_begins_where_the_seam_before_it_ends() -> None:
    assert missing({}, FILES, EPOCHS) == [(0, SECOND), (0, THIRD)]
    assert missing(known(), FILES, EPOCHS) == [(0, SECOND), (0, THIRD)]
    assert missing(known(SECOND), FILES, EPOCHS) == [(0, THIRD)]
    assert missing(known(SECOND, THIRD), FILES, EPOCHS) == []


def test_a_chain_may_begin_within_an_era() -> None:
    first = position_at(3, 70)
    assert missing({}, chain(1, first, first + 5), EPOCHS) == [(1, Era(3, "id", 70, 12, 0))]


class LogEnds:
    """What Kafka says of the partitions that are asked for."""

    def log_ends(self, topic: str, partitions: list[int]) -> dict[int, LogEnd]:
        return {number: LogEnd(99, EPOCHS[number]) for number in partitions}


@pytest.mark.parametrize("lost", [False, True])
def test_they_are_booked_as_open(lost: bool) -> None:
    database = sqlite()
    with database.begin() as connection:
        for each in FILES if lost else FILES[-1:]:
            row = dict.fromkeys(("records", "lines", "bytes", "arrival_min", "arrival_max", "unparsed"), 0)
            row |= {"topic": "logs", **vars(each), "days": {}, "generation": 1, "path": f"/{each.first}"}
            connection.execute(sa.insert(schema.archive_files).values(row))
    for _ in range(2):
        complete(database, LogEnds(), "logs")  # type: ignore[arg-type]
    found = {number: log.eras for number, log in eras.logs(database, "logs").items()}
    assert found == ({0: (SECOND, THIRD)} if lost else {})
    assert [each.of_read for each in open_losses(database)] == ([True, True] if lost else [])
