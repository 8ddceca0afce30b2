"""Dropping what is beyond retention."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

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
