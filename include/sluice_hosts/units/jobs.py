"""Members of a job as units: any of them can move to a host with the role `jobs`."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.collection.agent import LOCAL
from sluice.collection.machine import ProcessState
from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack.job_hosting import job_and_number
from sluice_hosts import hosts, placed
from sluice_hosts.jobs import moving
from sluice_hosts.jobs import places as where
from sluice_hosts.jobs.far import FarJob
from sluice_hosts.units.kinds import Log, MovedMeanwhile, ObservedUnit, Observer, Running


class Jobs:
    """The members of one job. Each takes one slot, and they are spread where that costs nothing."""

    def __init__(self, job: str) -> None:
        self.name = job

    def units(self, settings: Settings, places: int) -> list[Running]:
        """Those that are on record. None without another host: they are then a part of the platform."""
        if not where.others(settings) and not self._elsewhere(settings):
            return []
        found = ((each, where.runs_on(settings, each)) for each in self._members(settings))
        movable = not where.bound(settings, self.name)
        return [
            Running(where.unit(each), host, movable=movable, application=self.name, role=where.ROLE)
            for each, host in found
            if host is not None
        ]

    def observer(self, settings: Settings) -> Observer:
        there = hosts.load(settings)

        def observe(unit: str) -> ObservedUnit | None:
            member = where.member(unit)
            record = detached.read(member, settings.home / "run")
            if record is None or not detached.alive(record):
                return None
            host = where.host_of(record)
            if host == LOCAL:
                return ObservedUnit(record.pid)
            now = FarJob(settings, there[host], member).status()
            return ObservedUnit(now.pid) if now.state == ProcessState.ALIVE else None

        return observe

    def belong(self, settings: Settings, hosts: Mapping[str, str]) -> None:
        placed.update(settings, hosts)

    def written(self, settings: Settings) -> Mapping[str, str]:
        return placed.read(settings)

    def move(self, settings: Settings, unit: str, host: str, log: Log) -> None:
        try:
            moving.move(settings, unit, host, log)
        except moving.JobMovedMeanwhile as error:
            raise MovedMeanwhile(str(error)) from error

    def _members(self, settings: Settings) -> list[str]:
        return [each for each in where.members(settings) if job_and_number(each)[0] == self.name]

    def _elsewhere(self, settings: Settings) -> bool:
        """Whether one still runs on a host that has lost the role."""
        return any(where.runs_on(settings, each) not in (None, LOCAL) for each in self._members(settings))
