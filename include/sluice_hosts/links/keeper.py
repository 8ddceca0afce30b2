"""The keeper on a host: a script beside each agent or job that starts it, stops it, and says if it runs."""

from __future__ import annotations

from pathlib import Path, PurePath

from sluice.collection.machine import ProcessState, Status
from sluice_hosts.links.ssh import COMMAND_SECONDS, RemoteFailed, SshLink

#: The script itself.
KEEPER = Path(__file__).parent / "keeper.sh"
_AT = "at "  # before each address that the keeper shows


class Keeper:
    """What keeps one process. folder: where its versions and its state lie on the host."""

    def __init__(self, link: SshLink, folder: PurePath) -> None:
        self._link, self._folder = link, folder
        self._script = str(folder / "current" / "keeper")

    def status(self, seconds: float = COMMAND_SECONDS) -> Status:
        """Ask the keeper; what was never deployed is stopped. Raises HostUnreachable, RemoteFailed."""
        script = 'if [ -f "$1" ]; then sh "$1" status; else echo "stopped 0 0 -"; echo clean; fi'
        said = self._link.run("sh", "-c", script, "keeper", self._script, seconds=seconds)
        try:
            return parsed(said)
        except ValueError as error:
            where = self._link.target.name
            raise RemoteFailed(f"{self._folder.name} on {where}: the keeper said {said[:200]!r}") from error

    def order(self, *command: str, seconds: float = COMMAND_SECONDS) -> None:
        """Have it do something. Raises HostUnreachable, RemoteFailed."""
        self._link.run("sh", self._script, *command, seconds=seconds)


def parsed(said: str) -> Status:
    """What a keeper said. Raises ValueError if no keeper says that."""
    first, *rest = said.splitlines() or [""]
    state, pid, age, version = first.split()
    at = "".join(f"{line.removeprefix(_AT)}\n" for line in rest if line.startswith(_AT))
    return Status(ProcessState(state), int(pid), int(age), version, "held" in rest, "clean" in rest, at)
