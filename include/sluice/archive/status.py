"""What a partition's archiver shows: its progress in the heartbeat, an alert while stuck."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from sluice.archive.file import ArchivedPartition
from sluice.runtime import holds
from sluice.runtime.holds import POLL_SECONDS, Hold
from sluice.stack.progress import PartitionProgress, PartitionState
from sluice.storage.tables import alerts

log = logging.getLogger(__name__)

# A partition that has made no progress for this long although it tried raises an alert.
ALERT_SECONDS = 30.0


class PartitionStatus:
    """The progress and the alert of one partition."""

    def __init__(self, place: ArchivedPartition, database: Engine) -> None:
        self.progress = PartitionProgress()
        self._place = place
        self._database = database
        self._alert_open = True  # an earlier process may have left one

    def problem(self, state: PartitionState, error: Exception | str) -> None:
        """Show the problem, and log it unless it is the one shown already."""
        if (state, str(error)) != (self.progress.state, self.progress.message):
            log.warning("%s: %s: %s", self._place, state, error)
        self.progress.state, self.progress.message = state, str(error)

    def waits(self, error: Exception, seconds: float) -> None:
        """Show that something has been away for `seconds`; alert after ALERT_SECONDS."""
        self.problem(PartitionState.WAITING, error)
        if seconds > ALERT_SECONDS:
            self.alert(error)

    def alert(self, error: Exception) -> None:
        """Raise an alert for an error that does not pass by itself, or takes long."""
        self._sync({f"{self._place}: not archived": str(error)})

    def recovered(self) -> None:
        """All is well: clear the alert if there is one."""
        self.progress.state, self.progress.message = PartitionState.ARCHIVING, ""
        if self._alert_open:
            self._sync({})

    def await_space(self, home: Path, stopping: threading.Event) -> bool:
        """Wait while a disk is nearly full; returns whether there is space: False if it is to stop meanwhile.

        What comes meanwhile stays in the writer's inbox; once that is full, it stays in Kafka.
        """
        held = False
        while why := holds.reason(home, Hold.LAYERS):
            self.problem(PartitionState.WAITING, why)
            held = True
            if stopping.wait(POLL_SECONDS):
                return False
        if held:
            self.recovered()
        return True

    def _sync(self, current: dict[str, str]) -> None:
        try:
            alerts.sync(self._database, "archive", current, prefix=f"{self._place}: ")
            self._alert_open = bool(current)
        except DBAPIError as error:
            log.warning("%s: the alert could not be written: %s", self._place, error)
