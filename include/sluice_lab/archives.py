"""Deletes what a trial has archived: no product does that to a master dataset."""

from __future__ import annotations

import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsStore
from sluice.storage.postgres import engine
from sluice.storage.tables import schema


def delete_archive(settings: Settings, topic: str) -> None:
    """Delete the topic's files in HDFS, and their index."""
    HdfsStore.of(settings).delete(f"{settings.hdfs.raw}/{topic}", recursive=True)
    with engine(settings).begin() as connection:
        for table in (schema.archive_files, schema.archive_losses):
            connection.execute(sa.delete(table).where(table.c.topic == topic))
