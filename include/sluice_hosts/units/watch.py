"""The placement for ever: look on a beat, plan, and move what pays."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from sluice.runtime.settings import Settings
from sluice.storage.tables import alerts
from sluice_hosts.units import measure
from sluice_hosts.units.carrying import SOURCE
from sluice_hosts.units.kinds import Kind, Log
from sluice_hosts.units.mover import Mover, PlacementBusy
from sluice_hosts.units.view import HostState, HostView, View, view

#: How often is planned while no host comes or goes.
PLAN_SECONDS = 60.0


class UnitWatch:
    """What is remembered from one beat to the next; the rest is in PostgreSQL.

    Moves are done in the threads of `mover`, while the watch looks on.
    """

    def __init__(self, settings: Settings, database: sa.Engine, kinds: Sequence[Kind]) -> None:
        self._settings, self._database, self._kinds = settings, database, kinds
        self.mover = Mover(settings, database, kinds)
        self._states: dict[str, str] = {}
        self._begun_at, self._planned_at = time.monotonic(), float("-inf")
        self._fault, self._waits = "", False
        self._told: str | None = None  # an alert of the watch before may be open

    def beat(self, log: Log) -> None:
        """Look, and if it is time, plan and begin moves. What fails is logged once and raises an alert."""
        fault = ""
        try:
            self._beat(log)
        except Exception as error:  # a daemon that is away, or a faulty inventory, must not end the watch
            fault = f"cannot place units: {' '.join((str(error) or type(error).__name__).split())}"
        if fault != self._fault:
            self._fault = fault
            log(fault or "units are placed again")
        if fault != self._told:
            with contextlib.suppress(SQLAlchemyError):  # tried again at the next beat
                alerts.sync(self._database, SOURCE, {"watch": fault} if fault else {}, prefix="watch")
                self._told = fault

    def stop(self) -> None:
        """Begin no move any more; one that is at work ends by itself. Waits for nothing."""
        self.mover.stop()

    def _beat(self, log: Log) -> None:
        measure.look(self._settings, self._database, self._kinds)
        seen = view(self._settings, self._database, self._kinds)
        self._tell(seen, log)
        states = {host.name: str(host.state) for host in seen.hosts}
        now = time.monotonic()
        if states == self._states and now - self._planned_at < PLAN_SECONDS:
            return
        try:
            self.mover.begin(log, even=self._measured(seen))
        except PlacementBusy as error:  # tried again at the next beat
            if not self._waits:
                log(str(error))
            self._waits = True
            return
        self._waits = False
        self._states, self._planned_at = states, time.monotonic()

    def _measured(self, seen: View) -> bool:
        """Whether all units were measured, or that was waited for: slots say less than loads."""
        unknown = any(unit.cpu is None for unit in seen.units if unit.running.movable)
        return not unknown or time.monotonic() - self._begun_at > self._settings.placement.hold_seconds

    def _tell(self, seen: View, log: Log) -> None:
        """Raise an alert for each host that does not answer, and clear it when it does."""
        silent = {
            f"host {host.name} is silent": self._silent(host)
            for host in seen.hosts
            if host.state in (HostState.AWAY, HostState.WAITING)
        }
        raised, cleared = alerts.sync(self._database, SOURCE, silent, prefix="host ")
        for name in raised:
            log(silent[name])
        for name in cleared:
            log(f"over: {name}")

    def _silent(self, host: HostView) -> str:
        seconds = self._settings.placement.silent_seconds
        return f"host {host.name} {host.why}: its placed units go elsewhere after {seconds:g} s"
