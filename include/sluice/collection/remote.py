"""An agent's life on another host: the same steps as `lifecycle` takes here, by the keeper over SSH.

Its channel is on its host's disk, so no way to end it loses a line. Every function raises HostUnreachable if
the host does not answer. Then nothing is known of the agent, and nothing is done to it. Callers hold the
deployment's lock.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

from sluice.collection import addresses, broker, enrolment, metrics, position, readable, records
from sluice.collection.bundle import Bundle, bundle
from sluice.collection.copying import copied
from sluice.collection.errors import AgentError
from sluice.collection.keeper import Keeper, ProcessState, Status
from sluice.collection.metrics import AgentCounters, MetricsUnreachable
from sluice.collection.render import Agent, addresses_file, place
from sluice.collection.ssh import RemoteFailed, SshLink
from sluice.runtime.settings import Settings

STOP_SECONDS = 20
_CHUNK = 4 << 20

Log = Callable[[str], None]


def status(settings: Settings, agent: Agent) -> Status:
    """Ask the keeper; an agent that was never deployed is stopped."""
    return _keeper(settings, agent).status()


def settled(settings: Settings, agent: Agent) -> bool:
    """Whether it runs, with its deployed configuration.

    Input that was left held is released, and an edge is told where the collectors are now.
    """
    now = status(settings, agent)
    if now.state != ProcessState.ALIVE or now.version != _bundle(settings, agent).version:
        return False
    if now.held:
        _keeper(settings, agent).order("release")
    _tell(settings, agent, now)
    return True


def start(
    settings: Settings,
    agent: Agent,
    drain_seconds: float,
    log: Log,
    texts: Mapping[str, str] | None = None,
) -> None:
    """Bring the agent to its deployed configuration and have it run; adopt it if it does.

    texts: of another configuration, by the files' names.
    """
    wanted, now = _bundle(settings, agent, texts), status(settings, agent)
    if now.state == ProcessState.ALIVE and now.version == wanted.version:
        return
    _check(settings, agent)
    _copy(settings, agent, wanted, log)
    if now.state == ProcessState.ALIVE:
        stop(settings, agent, drain_seconds, log)
    _link(settings, agent).switch(wanted.agent / "current", f"versions/{wanted.version}")
    _tell(settings, agent, now)
    _keeper(settings, agent).order("start")
    _keeper(settings, agent).order("prune")
    log(f"{agent.name}: started on {agent.runs_on}, version {wanted.version}")


def prepare(settings: Settings, agent: Agent, texts: Mapping[str, str], log: Log) -> None:
    """Copy a version that is not deployed yet: the agent's files and the jars. Nothing else changes."""
    _check(settings, agent)
    _copy(settings, agent, _bundle(settings, agent, texts), log)


def resume(settings: Settings, agent: Agent) -> None:
    """Start the version that is on the host, whatever is deployed now."""
    _keeper(settings, agent).order("start")


def stop(settings: Settings, agent: Agent, drain_seconds: float, log: Log, must_drain: bool = False) -> bool:
    """Stop the agent, drained; return whether its channel was seen empty.

    must_drain: if its channel does not drain, the agent keeps running and RemoteFailed is raised.
    """
    drained = False
    if status(settings, agent).state == ProcessState.ALIVE:
        _keeper(settings, agent).order("hold")
        drained = metrics.drain(lambda: counters(settings, agent), drain_seconds)
    if must_drain and not drained:
        _keeper(settings, agent).order("release")
        if status(settings, agent).state != ProcessState.ALIVE:
            raise RemoteFailed(
                f"{agent.name} ended on {agent.runs_on} while its channel drained: see `sluice logs "
                f"{agent.process}`; it is started there again"
            )
        raise RemoteFailed(
            f"{agent.name} on {agent.runs_on} still holds blocks of lines after {drain_seconds:g} s: see "
            "with `sluice status` why they do not move, then deploy again"
        )
    if status(settings, agent).state == ProcessState.STOPPED:
        return False
    how = ["drained"] if drained else []
    _keeper(settings, agent).order("stop", str(STOP_SECONDS), *how, seconds=3 * STOP_SECONDS)
    log(f"{agent.name}: stopped" + (", drained" if drained else "; its channel stays on its host's disk"))
    return drained


def counters(settings: Settings, agent: Agent) -> AgentCounters:
    """The agent's counters. Raises MetricsUnreachable if only the agent does not answer.

    Any user of the host may listen where the agent does not, and would be believed.
    """
    try:
        _keeper(settings, agent).order("listens", str(agent.metrics_port))
        answer = _link(settings, agent).get(agent.metrics_port, "/metrics")
    except AgentError as error:  # also a list of hosts that cannot be used
        raise MetricsUnreachable(str(error)) from error
    return metrics.parse(answer, agent.name)


def all_read(settings: Settings, agent: Agent) -> bool:
    """Whether every file on the host has been read to its end."""
    data = _link(settings, agent).read(place(settings, agent.name, agent.runs_on).folder / "position.json")
    try:
        reached = {entry["file"]: entry["pos"] for entry in (json.loads(data) if data else [])}
    except (ValueError, TypeError, KeyError):  # torn by a crash: the agent begins again
        return False
    # Beyond the end: the file was truncated, and the agent has not looked since.
    return all(reached.get(str(path), 0) == size for path, size in _files(settings, agent).items())


def log_tail(settings: Settings, agent: Agent, name: str = "", size: int = 256 << 10) -> bytes:
    """The end of the agent's own log, or of another file in its folder of logs.

    `out` has what its process printed, which says why a JVM did not start.
    """
    folder = place(settings, agent.name, agent.runs_on).home / "logs"
    link, name = _link(settings, agent), name or f"{agent.process}.log"
    length = (link.sizes(folder) or {}).get(name, 0)
    return link.read(folder / name, max(0, length - size), size) or b""


@dataclass(frozen=True)
class RemoteFile:
    """A log file on another host; it can be opened as a `Path` can, to be read from its beginning."""

    link: SshLink
    path: PurePath

    def open(self, _mode: Literal["rb"]) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self.link, self.path), _CHUNK)


class _Reader(io.RawIOBase):
    def __init__(self, link: SshLink, path: PurePath) -> None:
        self._link, self._path, self._at = link, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._link.read(self._path, self._at, min(len(buffer), _CHUNK)) or b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def log_files(settings: Settings, agent: Agent) -> dict[str, RemoteFile]:
    """The agent's log files, by their name in the records."""
    at, link = place(settings, agent.name, agent.runs_on), _link(settings, agent)
    data = link.read(at.folder / position.GENERATIONS_FILE)
    try:
        known = position.generation_numbers(json.loads(data)) if data else {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RemoteFailed(
            f"{agent.name} on {agent.runs_on}: {position.GENERATIONS_FILE}: {error}"
        ) from error
    return {
        position.identity(Path(path), Path(at.home), known): RemoteFile(link, path)
        for path in _files(settings, agent)
    }


def _files(settings: Settings, agent: Agent) -> dict[PurePath, int]:
    """The agent's log files and their sizes."""
    found: dict[PurePath, int] = {}
    for pattern in agent.patterns(settings.home):
        sizes = _link(settings, agent).sizes(PurePath(pattern.directory)) or {}
        found |= {
            PurePath(pattern.directory, name): size for name, size in sizes.items() if pattern.matches(name)
        }
    return found


def _check(settings: Settings, agent: Agent) -> None:
    """Check for what the agent needs: its user in Kafka, and its log files, which it may read."""
    if agent.logs_in:
        broker.check_granted(settings, agent.runs_on, agent.topic)
    readable.check(_link(settings, agent), agent.name, agent.patterns(settings.home))


def _copy(settings: Settings, agent: Agent, wanted: Bundle, log: Log) -> None:
    link = _link(settings, agent)
    with records.guarded(settings, f"copy-{agent.runs_on}"):  # the jars are the same for all agents there
        for folder, files in ((wanted.lib, wanted.jars), (wanted.folder, wanted.files)):
            if copied(link, folder, files):
                log(f"{agent.name}: {len(files)} files copied to {agent.runs_on}")


def _tell(settings: Settings, agent: Agent, now: Status) -> None:
    """Bring the edge's file of addresses up to date."""
    text = addresses.wanted(settings, agent)
    if text is not None and text != now.collectors:
        _link(settings, agent).replace(addresses_file(settings, agent), text.encode())


def _keeper(settings: Settings, agent: Agent) -> Keeper:
    return Keeper(_link(settings, agent), _agent_folder(settings, agent))


def _agent_folder(settings: Settings, agent: Agent) -> PurePath:
    return place(settings, agent.name, agent.runs_on).folder.parent


def _bundle(settings: Settings, agent: Agent, texts: Mapping[str, str] | None = None) -> Bundle:
    host = enrolment.known(settings, agent.runs_on)
    return bundle(settings, agent, enrolment.enrolled(settings, host), texts)


def _link(settings: Settings, agent: Agent) -> SshLink:
    return enrolment.link(settings, enrolment.known(settings, agent.runs_on))
