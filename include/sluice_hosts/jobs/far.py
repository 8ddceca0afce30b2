"""One member of a job on one host, by the keeper that agents have, too.

On the host, below the instance's own folder::

    jobs/<member>/versions/<checksum>/     what starts it, its settings and secrets, metrics, the keeper
    jobs/<member>/current -> versions/...  the version in use
    jobs/<member>/state/                   its progress, its log, the process's record, what it was told
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

from sluice.collection.errors import AgentError
from sluice.collection.machine import ProcessState, Status
from sluice.runtime.settings import Settings, metrics_folder
from sluice.stack.job_hosting import job_and_number
from sluice_hosts.hosts import Host
from sluice_hosts.jobs import places
from sluice_hosts.jobs.environment import environment
from sluice_hosts.links import release
from sluice_hosts.links.copying import SUMS, copied, summed
from sluice_hosts.links.keeper import KEEPER, Keeper, parsed
from sluice_hosts.links.release import ReleaseError
from sluice_hosts.links.ssh import RemoteFailed
from sluice_hosts.trust import broker, certificates, database, enrolment

Log = Callable[[str], None]

#: A job that does not end by itself after SIGTERM is killed. A shadow has STOP_GRACE of `successor` for it.
STOP_SECONDS = 10
#: How long a host may take to answer a look, less than its shadow has to stop.
LOOK_SECONDS = 10.0
_FOLDER = "jobs"
_METRICS = "metrics"
_LIST = (
    'for keeper in "$1"/*/current/keeper; do [ -f "$keeper" ] || continue; '
    'at="${keeper%/current/keeper}"; echo "${at##*/} $(sh "$keeper" status | head -n 1)"; done'
)


class JobBound(AgentError):
    """A job cannot run on another host."""

    def __init__(self, member: str, why: str) -> None:
        super().__init__(
            f"{member} stays on local: {why}: run `sluice jobs move {places.unit(member)} local`, or let "
            "Spark's master be local[N]"
        )


class FarJob:
    """A member of a job on an enrolled host. Raises EnrolError.

    Every method raises HostUnreachable if the host does not answer, and RemoteFailed.
    """

    def __init__(self, settings: Settings, host: Host, member: str) -> None:
        self._settings, self._host, self._member = settings, host, member
        self._link = enrolment.link(settings, host)
        self._folder = _jobs_folder(settings, host) / member
        self._keeper = Keeper(self._link, self._folder)

    def start(self, arguments: Sequence[str], log: Log) -> bool:
        """Have it run with the settings of now, or adopt it if it does; returns whether it was started.

        If the host has another release, what runs there is stopped: it has other code or other settings than
        it should have. Raises ReleaseError, JobBound, and BrokerError while Kafka does not know the host.
        """
        job, _ = job_and_number(self._member)
        if why := places.bound(self._settings, job):
            raise JobBound(self._member, why)
        at = self._host.release or ""
        files = self._files(at, arguments)
        sums, version = summed(files)
        now = self._keeper.status()
        if now.state == ProcessState.ALIVE and now.version == version:
            log(f"{self._member}: runs on {self._host.name}, pid {now.pid}")
            return False
        if self._there.kafka.login:
            broker.check_granted(self._settings, self._host.name, broker.ALL)
        try:
            release.check(self._link, at, self._settings.root)
        except ReleaseError:
            if now.state == ProcessState.ALIVE:
                self.stop()
                log(f"{self._member}: stopped on {self._host.name}, which has another release")
            raise
        copied(self._link, self._folder / "versions" / version, {**files, SUMS: sums})
        if now.state == ProcessState.ALIVE:
            self.stop()
        self._link.switch(self._folder / "current", f"versions/{version}")
        self._keeper.order("start")
        self._keeper.order("prune")
        log(f"{self._member}: started on {self._host.name}, version {version}")
        return True

    def enrolled_again(self) -> bool:
        """Whether the host was enrolled again, with another address, account, key or folder of Sluice."""
        try:
            now = enrolment.known(self._settings, self._host.name)
            return now.release != self._host.release or enrolment.link(self._settings, now) is not self._link
        except AgentError:  # it is not enrolled any more
            return False

    def tell(self, name: str, text: str) -> None:
        """Replace a file in its home that it reads while it runs."""
        self._link.replace(self._state / name, text.encode())

    def status(self) -> Status:
        return self._keeper.status(LOOK_SECONDS)

    def stop(self) -> None:
        """Stop it by SIGTERM, and wait until it has ended."""
        self._keeper.order("stop", str(STOP_SECONDS), seconds=3.0 * STOP_SECONDS)

    def progress(self) -> bytes:
        """What it wrote last of its progress; empty if it wrote nothing."""
        return self._link.read(self._state / "progress.json", seconds=LOOK_SECONDS) or b""

    def length(self) -> int:
        """How many bytes its process has printed."""
        return (self._link.sizes(self._state / "logs") or {}).get("out", 0)

    def printed(self, offset: int, size: int) -> bytes:
        """What its process printed, from an offset on."""
        return self._link.read(self._state / "logs" / "out", offset, size, LOOK_SECONDS) or b""

    @property
    def _state(self) -> PurePath:
        return self._folder / "state"

    def _files(self, at: str, arguments: Sequence[str]) -> dict[str, Path | bytes]:
        """A version of it. at: where Sluice is."""
        job, _ = job_and_number(self._member)
        words = [f"jobs/{job}.py", *arguments, "--progress", str(self._state / "progress.json")]
        quoted = shlex.join(words)
        start = f'cd {at} && . "${{0%/*}}/environment" && exec {release.PYTHON} {quoted}\n'
        current, metrics = self._folder / "current", metrics_folder().glob("[!._]*.py")
        return {
            "keeper": KEEPER.read_bytes(),
            "release": release.checksum(self._settings.root).encode(),  # another code is another version
            "start": start.encode(),
            "environment": environment(self._there, self._state, at, current / _METRICS).encode(),
            **certificates.files(enrolment.folder(self._settings), self._host.name),
            **{f"{_METRICS}/{path.name}": path.read_bytes() for path in sorted(metrics)},
        }

    @property
    def _there(self) -> Settings:
        """The settings of the job: how it reaches PostgreSQL and Kafka from its host. Raises BrokerError."""
        at = self._folder / "current"
        settings = database.from_elsewhere(self._settings, str(at / certificates.AUTHORITY))
        return broker.from_elsewhere(settings, self._host.name, at)


def there(settings: Settings, host: Host) -> dict[str, Status]:
    """The members that were ever started on an enrolled host. Raises as `FarJob` does."""
    folder = str(_jobs_folder(settings, host))
    said = enrolment.link(settings, host).run("sh", "-c", _LIST, "list", folder)
    try:
        lines = [line.partition(" ") for line in said.splitlines()]
        return {name: parsed(status) for name, _, status in lines}
    except ValueError as error:
        raise RemoteFailed(f"host {host.name}: its keepers said {said[:200]!r}") from error


def _jobs_folder(settings: Settings, host: Host) -> PurePath:
    return PurePath(enrolment.enrolled(settings, host).directory) / _FOLDER
