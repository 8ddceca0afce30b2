"""Merging the archive's small files."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from sluice_airflow.connections import settings


class Compaction(BaseOperator):
    """Merge the archive's small files of days that are over, of every topic.

    Returns a line a partition. A run may be repeated, and the run after one that died goes on from there.
    """

    def execute(self, context: Any) -> list[str]:
        from sluice.archive.compaction import CompactionUnderWay, compact
        from sluice.archive.verification import archived_topics

        said: list[str] = []
        for topic in archived_topics(settings()):
            try:
                for done in compact(settings(), topic, tell=self.log.info):
                    said.append(str(done))
                    self.log.info("%s", done)
                    for problem in done.problems:
                        self.log.warning("%s: %s", done.place, problem)
            except CompactionUnderWay as other:
                self.log.warning("%s", other)
        return said
