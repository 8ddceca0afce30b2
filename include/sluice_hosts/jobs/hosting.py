"""What several hosts add to the supervision of jobs: it is joined to the core under the name `jobs`."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.collection.agent import LOCAL
from sluice.collection.errors import HostListError
from sluice.runtime import detached, successor
from sluice.runtime.settings import Settings
from sluice.runtime.successor import Overlap
from sluice.stack.job_hosting import JobHosting, Log, job_and_number
from sluice_hosts.jobs import job_state, places
from sluice_hosts.jobs.job_state import JobState

#: What an alert says of a member elsewhere, by what its shadow knows.
_WRONG = {JobState.UNKNOWN: "may run or not", JobState.STOPPED: "does not run"}


class JobsOnHosts(JobHosting):
    """Archivers and drivers also run on the hosts of hosts.yaml."""

    def command(self, settings: Settings, member: str, arguments: Sequence[str]) -> list[str]:
        """While a file cannot be read that says where the member belongs, it stays where it is."""
        try:
            host = places.belongs_on(settings, member)
        except HostListError:
            host = places.runs_on(settings, member) or LOCAL
        return places.command(settings, member, host, arguments)

    def overlap(self, settings: Settings, member: str) -> Overlap | None:
        from sluice_hosts.jobs import succession  # slow to import, so not where DAGs are parsed

        return succession.overlap(settings, member)

    def alerts(self, settings: Settings, job: str) -> dict[str, str]:
        """An alert for each member and successor whose host does not answer, or has another release."""
        found = {}
        members = places.members(settings) if job in places.JOBS else []
        mine = [member for member in members if job_and_number(member)[0] == job]
        for name in (*mine, *map(successor.name_of, mine)):
            record = detached.read(name, settings.home / "run")
            said = job_state.read(settings, name, record.pid) if record else None
            if said and said.state in _WRONG:
                found[f"{name}: {said.state}"] = f"{name} {_WRONG[said.state]}: {said.why}"
        return found

    def stop_leftovers(self, settings: Settings, log: Log) -> dict[str, str]:
        from sluice_hosts.jobs import leftovers

        return leftovers.stop(settings, log)

    def known_elsewhere(self, settings: Settings, member: str) -> bool:
        return job_state.known(settings, member)


ON_HOSTS = JobsOnHosts()
