"""Another host, reached over SSH: an agent's steps are taken by the keeper beside it.

Its channel is on its host's disk, so no way to end it loses a line.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

from sluice.collection import metrics, position, records
from sluice.collection.agent import LOCAL, Agent
from sluice.collection.errors import AgentError
from sluice.collection.machine import AgentFiles, Status, Texts
from sluice.collection.metrics import AgentCounters, MetricsUnreachable
from sluice.collection.pattern import Pattern
from sluice.collection.position import Position
from sluice.runtime.settings import Settings
from sluice_hosts.agents.bundle import Bundle, bundle, logs_in
from sluice_hosts.hosts import Host, load
from sluice_hosts.links import readable
from sluice_hosts.links.copying import copied
from sluice_hosts.links.keeper import Keeper
from sluice_hosts.links.ssh import RemoteFailed, SshLink
from sluice_hosts.trust import broker, enrolment

_CHUNK = 4 << 20


class SshMachine:
    """A host of hosts.yaml. It is looked up when it is asked: a host that is gone still has a name."""

    ours, versioned, logs_in, certificates = False, True, True, ""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings, self.name = settings, name

    @property
    def address(self) -> str:
        return self._host.address

    @property
    def bootstrap(self) -> str:
        return broker.bootstrap(self._settings, load(self._settings)[LOCAL].address)

    def files(self, agent: str) -> AgentFiles:
        """All is in the agent's own folder, and what a version has in `current`."""
        own = self._folder(agent)
        return AgentFiles(own / "state", own / "state", own / "current" / "identity.key", own / "current")

    def refuses(self, agent: Agent) -> str:
        return ""

    def lay_out(self, agent: Agent) -> None:
        pass

    def status(self, agent: Agent) -> Status:
        return self._keeper(agent).status()

    def version(self, agent: Agent, texts: Texts | None = None) -> str:
        return self._bundle(agent, texts).version

    def bring(self, agent: Agent, texts: Texts | None = None) -> str:
        """Copy the agent's files and the jars.

        Before, it is checked for what the agent needs: its user in Kafka, and its log files, which it may
        read.
        """
        if logs_in(agent):
            broker.check_granted(self._settings, self.name, agent.topic)
        readable.check(self._link, agent.name, agent.patterns(self._settings.home))
        wanted, number = self._bundle(agent, texts), 0
        with records.guarded(self._settings, f"copy-{self.name}"):  # the jars are the same for all agents
            for folder, files in ((wanted.lib, wanted.jars), (wanted.folder, wanted.files)):
                number += len(files) if copied(self._link, folder, files) else 0
        return f"{number} files copied to {self.name}" if number else ""

    def start(self, agent: Agent, texts: Texts | None = None) -> str:
        wanted = self._bundle(agent, texts)
        self._link.switch(wanted.agent / "current", f"versions/{wanted.version}")
        self.resume(agent)
        self._keeper(agent).order("prune")
        return f"version {wanted.version} on {self.name}"

    def resume(self, agent: Agent) -> None:
        """Start the version that is on the host, whatever is deployed now."""
        self._keeper(agent).order("start")

    def hold(self, agent: Agent, held: bool) -> None:
        self._keeper(agent).order("hold" if held else "release")

    def stop(self, agent: Agent, seconds: float, drained: bool) -> None:
        how = ["drained"] if drained else []
        self._keeper(agent).order("stop", f"{seconds:.0f}", *how, seconds=3 * seconds)

    def counters(self, agent: Agent) -> AgentCounters:
        """Any user of the host may listen where the agent does not, and would be believed."""
        try:
            self._keeper(agent).order("listens", str(agent.metrics_port))
            answer = self._link.get(agent.metrics_port, "/metrics")
        except AgentError as error:  # also a list of hosts that cannot be used
            raise MetricsUnreachable(str(error)) from error
        return metrics.parse(answer, agent.name)

    def tell(self, agent: Agent, collectors: str) -> None:
        self._link.replace(self.files(agent.name).addresses, collectors.encode())

    def all_read(self, agent: Agent) -> bool:
        positions = self._positions(agent)
        if positions is None:  # torn by a crash: the agent begins again
            return False
        reached = {each.file: each.pos for each in positions}
        # Beyond the end: the file was truncated, and the agent has not looked since.
        sizes = self._sizes(agent.patterns(self._settings.home))
        return all(reached.get(str(path), 0) == size for path, size in sizes.items())

    def read_to(self, agent: Agent) -> Mapping[str, int]:
        name = self._identity(agent.name)
        return {name(PurePath(each.file)): each.pos for each in self._current(agent)}

    def rewind(self, agent: Agent, to: Mapping[str, int]) -> Mapping[str, tuple[int, int]]:
        name = self._identity(agent.name)
        names = {each.file: name(PurePath(each.file)) for each in self._current(agent)}
        back = {file: to[its] for file, its in names.items() if its in to}
        text, moved = position.taken_back(self._positions(agent) or [], back)
        if moved:
            path = self._position_file(agent)
            new = path.with_name("position.json.back")
            self._link.replace(new, text.encode())
            # By its age the agent knows a position that is older than a generation.
            script = 'touch -r "$1" "$2" && mv -f "$2" "$1"'
            self._link.run("sh", "-c", script, "rewind", str(path), str(new))
        return moved

    def recover(self, agent: Agent, held: int) -> Mapping[str, tuple[int, int]]:
        return {}

    def mend(self, agent: Agent) -> str:
        return ""

    def log_files(self, front_end: str, patterns: Iterable[Pattern]) -> Mapping[str, RemoteFile]:
        name = self._identity(front_end)
        return {name(path): RemoteFile(self._link, path) for path in self._sizes(patterns)}

    def log_tail(self, agent: Agent, name: str = "", size: int = 256 << 10) -> bytes:
        folder, name = self.files(agent.name).home / "logs", name or f"{agent.process}.log"
        length = (self._link.sizes(folder) or {}).get(name, 0)
        return self._link.read(folder / name, max(0, length - size), size) or b""

    def _identity(self, front_end: str) -> Callable[[PurePath], str]:
        """What names a front-end's files in the records."""
        at = self.files(front_end)
        data = self._link.read(at.folder / position.GENERATIONS_FILE)
        try:
            known = position.generation_numbers(json.loads(data)) if data else {}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RemoteFailed(f"{front_end} on {self.name}: {position.GENERATIONS_FILE}: {error}") from error
        return lambda path: position.identity(Path(path), Path(at.home), known)

    def _position_file(self, agent: Agent) -> PurePath:
        return self.files(agent.name).folder / "position.json"

    def _positions(self, agent: Agent) -> list[Position] | None:
        """How far each file was read; None if that was torn by a crash."""
        data = self._link.read(self._position_file(agent))
        try:
            return position.parsed(data) if data else []
        except (ValueError, TypeError):
            return None

    def _current(self, agent: Agent) -> list[Position]:
        """The positions in files that are there and no shorter; of another inode the agent takes none."""
        sizes = self._sizes(agent.patterns(self._settings.home))
        positions = self._positions(agent) or []
        return [each for each in positions if each.pos <= sizes.get(PurePath(each.file), -1)]

    def _sizes(self, patterns: Iterable[Pattern]) -> dict[PurePath, int]:
        """The log files and their sizes."""
        found: dict[PurePath, int] = {}
        for pattern in patterns:
            sizes = self._link.sizes(PurePath(pattern.directory)) or {}
            found |= {
                PurePath(pattern.directory, name): size
                for name, size in sizes.items()
                if pattern.matches(name)
            }
        return found

    def _keeper(self, agent: Agent) -> Keeper:
        return Keeper(self._link, self._folder(agent.name))

    def _bundle(self, agent: Agent, texts: Texts | None) -> Bundle:
        return bundle(self._settings, agent, self._enrolled, texts)

    def _folder(self, agent: str) -> PurePath:
        return PurePath(self._enrolled.directory) / "agents" / agent

    @property
    def _enrolled(self) -> enrolment.Enrolled:
        return enrolment.enrolled(self._settings, self._host)

    @property
    def _link(self) -> SshLink:
        return enrolment.link(self._settings, self._host)

    @property
    def _host(self) -> Host:
        return enrolment.known(self._settings, self.name)


@dataclass(frozen=True)
class RemoteFile:
    """A log file on another host; it can be opened as a `Path` can, to be read."""

    link: SshLink
    path: PurePath

    def open(self, _mode: Literal["rb"]) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self.link, self.path), _CHUNK)


class _Reader(io.RawIOBase):
    def __init__(self, link: SshLink, path: PurePath) -> None:
        self._link, self._path, self._at = link, path, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """The end is not known here, so no place is counted from it."""
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("seek from the end")
        self._at = offset + (self._at if whence == io.SEEK_CUR else 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self._link.read(self._path, self._at, min(len(buffer), _CHUNK)) or b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
