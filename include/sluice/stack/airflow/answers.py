"""What Airflow's REST API answers, apart from its client, which takes more than a second to import."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

SUCCESS = "success"
FINISHED = frozenset({SUCCESS, "failed"})


class AirflowError(RuntimeError):
    """Airflow refused a request; the message says why."""

    def __init__(self, what: str, status: int, reason: bytes) -> None:
        super().__init__(f"{what}: {status} {reason[:500].decode(errors='replace')}")
        self.status = status


class AirflowTimeout(TimeoutError):
    """A run or a backfill did not end in time; the message names it."""


@dataclass(frozen=True)
class DagRun:
    """One run of a DAG."""

    dag: str
    id: str
    state: str
    kind: str  # scheduled, manual, backfill, asset_triggered
    day: date | None  # the day on which its data interval starts
    started: datetime | None
    ended: datetime | None

    @property
    def finished(self) -> bool:
        return self.state in FINISHED

    @property
    def succeeded(self) -> bool:
        return self.state == SUCCESS
