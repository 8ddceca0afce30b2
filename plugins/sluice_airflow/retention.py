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
