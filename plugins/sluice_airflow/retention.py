"""Dropping what is beyond retention, and pruning what else grows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseOperator

from sluice.runtime.settings import Settings
from sluice_airflow.connections import settings


class Retention(BaseOperator):
    """Drop results, state and books that are beyond `retention.days`, of every topic.

    Returns a line a topic. A run may be repeated, and the run after one that died drops the rest.
    """

    def execute(self, context: Any) -> list[str]:
        from sluice.batch import retention
        from sluice.metrics import load_team

        load_team()
        said = [str(dropped) for dropped in retention.run(settings())]
        for line in said:
            self.log.info("dropped of %s", line)
        return said


class ArchiveRetention(BaseOperator):
    """Delete files of the archive that are beyond `retention.archive_days`, of every topic.

    Returns a line a partition. A run may be repeated, and the run after one that died deletes the rest.
    """

    def execute(self, context: Any) -> list[str]:
        from sluice.archive.compaction import CompactionUnderWay
        from sluice.archive.expiry import expire
        from sluice.archive.verification import archived_topics

        said: list[str] = []
        for topic in archived_topics(settings()):
            try:
                for done in expire(settings(), topic):
                    said.append(str(done))
                    self.log.info("%s", done)
            except CompactionUnderWay as other:
                self.log.warning("%s", other)
        return said


class Pruning(BaseOperator):
    """Prune one part of what grows; returns what was done, a line each.

    part: a name in PARTS. A run may be repeated, and the run after one that died prunes the rest.
    """

    def __init__(self, *, part: str, **other: Any) -> None:
        super().__init__(**other)
        self.part = part

    def execute(self, context: Any) -> list[str]:
        said = PARTS[self.part](settings(), datetime.now(UTC))
        for line in said:
            self.log.info("%s", line)
        return said


def _books(own: Settings, now: datetime) -> list[str]:
    from sluice.batch import bookkeeping

    return bookkeeping.run(own, now)


def _airflow(own: Settings, now: datetime) -> list[str]:
    from sluice.stack.airflow import cleaning

    return cleaning.clean(own, now - timedelta(days=own.retention.airflow_days))


def _files(own: Settings, now: datetime) -> list[str]:
    from sluice.monitoring import aside_pieces
    from sluice.quality import old_pages
    from sluice.stack import job_logs, spark_scratch
    from sluice.stack.daemons import zookeeper_files

    before = now - timedelta(days=own.retention.days)
    pages = old_pages.delete(own, before)
    aside = aside_pieces.delete_old(aside_pieces.pieces(own), before)
    turned = ", ".join(log.name for log in job_logs.turn_all(own)) or "none"
    return [
        f"{pages} pages of Data Docs deleted",
        f"logs of jobs turned: {turned}",
        f"{zookeeper_files.purge(own)} old files of ZooKeeper deleted",
        f"{aside} files deleted that stores had set aside",
        f"{spark_scratch.delete_leftovers(own)} folders deleted that killed processes of Spark left",
    ]


def _hdfs(own: Settings, now: datetime) -> list[str]:
    from sluice.stack.daemons import checkpoint

    return [checkpoint.checkpoint(own)]


#: By its name, which is also its task's: what prunes it.
PARTS = {"books": _books, "airflow": _airflow, "files": _files, "hdfs": _hdfs}
