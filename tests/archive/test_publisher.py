"""A file is published only if its records are in the log as it is now."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from sluice.archive.publisher import Publisher
from sluice.runtime.positions import Era
from sluice.storage.postgres import engine_at
from sluice.storage.tables import eras
from sluice.storage.tables.eras import LogMoved
from sluice.transmission.log_ends import LogEnd
from tests.archive.local_archive import PLACE
from tests.tasks.database import sqlite


class RestartedKafka:
    """A broker whose leaders have this epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def log_ends(self, _: str, partitions: list[int]) -> dict[int, LogEnd]:
        return {number: LogEnd(100, self.epoch) for number in partitions}


def publisher(database: sa.Engine, epoch: int) -> Publisher:
    unused: Any = None
    kafka: Any = RestartedKafka(epoch)
    return Publisher(PLACE, unused, kafka, database, unused)


def test_records_of_another_epoch_or_of_another_volume_are_not_published() -> None:
    database = sqlite()
    eras.add(database, PLACE.topic, [(PLACE.partition, Era(0, "id", 0, 2))])
    publisher(database, 2).check_log((0, 2))
    with pytest.raises(LogMoved):
        publisher(database, 4).check_log((0, 2))
    eras.volume_changed(database, {})
    with pytest.raises(LogMoved):
        publisher(database, 2).check_log((0, 2))


def test_kafka_s_epoch_is_enough_while_postgresql_is_away() -> None:
    away = engine_at("postgresql+psycopg2://sluice@127.0.0.1:1/sluice")
    publisher(away, 2).check_log((0, 2))
    with pytest.raises(LogMoved):
        publisher(away, 4).check_log((0, 2))
