"""The machine on which the platform runs: an agent is a detached process, its files are at hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from sluice.collection import channel_log, metrics, position
from sluice.collection.agent import LOCAL, Agent, folder
from sluice.collection.command import agent_command
from sluice.collection.machine import AgentFiles, ProcessState, Status, Texts
from sluice.collection.pattern import Pattern
from sluice.runtime import detached
from sluice.runtime.files import write_whole
from sluice.runtime.middle_damage import MiddleDamage
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import open_losses

#: Files in an agent's folder. `hold` stops its input; `clean` says that its memory held nothing when it
#: ended.
HOLD, CLEAN = "hold", "clean"
#: The folder of what was torn off the ends of a file channel's logs.
TORN = "torn"


class LocalMachine:
    """This machine, which no agent of another machine reaches."""

    name, ours, versioned, logs_in = LOCAL, True, False, False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def address(self) -> str:
        return self._settings.bind_host

    @property
    def certificates(self) -> str:
        return ""

    @property
    def bootstrap(self) -> str:
        return self._settings.kafka.bootstrap

    def files(self, agent: str) -> AgentFiles:
        home = self._settings.home
        secrets = home / "secrets" / "identity"
        return AgentFiles(home, folder(self._settings, agent), secrets, home / "hosts" / LOCAL)

    def refuses(self, agent: Agent) -> str:
        for pattern in agent.patterns(self._settings.home):
            where = pattern.directory
            if where.is_relative_to(self._settings.home):
                continue
            if not where.is_dir():
                return f"{where} is no directory: make it, or correct `files`"
            if not os.access(where, os.R_OK | os.X_OK):
                return f"{where} cannot be read: give this user r and x on it"
        return ""

    def lay_out(self, agent: Agent) -> None:
        for pattern in agent.patterns(self._settings.home):
            pattern.directory.mkdir(parents=True, exist_ok=True)

    def status(self, agent: Agent) -> Status:
        where, found = folder(self._settings, agent.name), self._record(agent)
        at = Path(self.files(agent.name).addresses)
        held, collectors = (where / HOLD).exists(), at.read_text() if at.exists() else ""
        clean = (where / CLEAN).exists() or not (where / "channel").exists()
        state, pid, age = ProcessState.STOPPED, 0, 0.0
        if found is not None:
            state, pid = ProcessState.DEAD, found.pid
            if detached.alive(found):
                since = datetime.now(UTC) - datetime.fromisoformat(found.started_at)
                state, age = ProcessState.ALIVE, since.total_seconds()
        return Status(state, pid, age, held=held, clean=clean, collectors=collectors)

    def version(self, agent: Agent, texts: Texts | None = None) -> str:
        return ""

    def bring(self, agent: Agent, texts: Texts | None = None) -> str:
        return ""

    def start(self, agent: Agent, texts: Texts | None = None) -> str:
        where = folder(self._settings, agent.name)
        for name in (HOLD, CLEAN):
            (where / name).unlink(missing_ok=True)
        out = self._logs / f"{agent.process}.out"
        started = detached.start(agent.process, self.command(agent), cwd=where, log=out, run=self._run)
        return f"pid {started.pid}"

    def command(self, agent: Agent) -> list[str]:
        """The command line of the agent."""
        where = folder(self._settings, agent.name)
        return agent_command(
            agent,
            configuration=where,
            state=where,
            home=self._settings.home,
            address=self._settings.bind_host,
        )

    def hold(self, agent: Agent, held: bool) -> None:
        mark = folder(self._settings, agent.name) / HOLD
        if held:
            mark.touch()
        else:
            mark.unlink(missing_ok=True)

    def stop(self, agent: Agent, seconds: float, drained: bool) -> None:
        if found := self._record(agent):
            detached.stop(found, seconds, run=self._run)
        if drained:
            (folder(self._settings, agent.name) / CLEAN).touch()

    def counters(self, agent: Agent) -> metrics.AgentCounters:
        return metrics.read(agent.metrics_port, self._settings.host("flume"))

    def tell(self, agent: Agent, collectors: str) -> None:
        write_whole(Path(self.files(agent.name).addresses), collectors)

    def all_read(self, agent: Agent) -> bool:
        files = [path for pattern in agent.patterns(self._settings.home) for path in pattern.files()]
        positions = position.read(folder(self._settings, agent.name) / "position.json") or []
        at_end = {p.file for p in positions if p.reached_end}
        return all(str(path) in at_end or path.stat().st_size == 0 for path in files)

    def read_to(self, agent: Agent) -> Mapping[str, int]:
        positions = position.read(folder(self._settings, agent.name) / "position.json") or []
        name = self._identity(agent.name)
        return {name(Path(each.file)): each.pos for each in positions if each.is_current}

    def rewind(self, agent: Agent, to: Mapping[str, int]) -> Mapping[str, tuple[int, int]]:
        path, name = folder(self._settings, agent.name) / "position.json", self._identity(agent.name)
        current = [Path(each.file) for each in position.read(path) or [] if each.is_current]
        return position.rewind_to(path, {str(file): to[name(file)] for file in current if name(file) in to})

    def recover(self, agent: Agent, held: int) -> Mapping[str, tuple[int, int]]:
        where = folder(self._settings, agent.name)
        ended = where / CLEAN
        if agent.tier != "edge" or agent.channel != "memory" or not where.is_dir() or ended.exists():
            return {}
        moved = position.rewind(where / "position.json", held, agent.max_line)
        ended.touch()
        return moved

    def mend(self, agent: Agent) -> str:
        where = folder(self._settings, agent.name)
        try:
            found = channel_log.torn(where / "channel") if agent.channel == "file" else None
        except MiddleDamage as damage:
            return f"its channel does not run if Flume needs what is damaged: {damage}"
        if found is None:
            return ""
        # Before it is mended: if this fails, it is tried again.
        open_losses.ask(engine(self._settings), agent.topic)
        kept = found.mend(where / TORN)
        return (
            f"its channel's {found.path.name} was torn at byte {found.end:,}: what followed was not whole on "
            f"the disk, and is in {kept} now. The front-ends' files are held against what was counted, and "
            "what is missing is sent again"
        )

    def log_files(self, front_end: str, patterns: Iterable[Pattern]) -> Mapping[str, Path]:
        name = self._identity(front_end)
        return {name(path): path for pattern in patterns for path in pattern.files()}

    def log_tail(self, agent: Agent, name: str = "", size: int = 256 << 10) -> bytes:
        path = self._logs / (f"{agent.process}.out" if name == "out" else name or f"{agent.process}.log")
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - size))
                return file.read()
        except FileNotFoundError:
            return b""

    def _identity(self, front_end: str) -> Callable[[Path], str]:
        """What names a front-end's files in the records."""
        known = position.generations(folder(self._settings, front_end) / position.GENERATIONS_FILE)
        return lambda path: position.identity(path, self._settings.home, known)

    def _record(self, agent: Agent) -> detached.ProcessRecord | None:
        return detached.read(agent.process, self._run)

    @cached_property
    def _run(self) -> Path:
        return self._settings.home / "run"

    @cached_property
    def _logs(self) -> Path:
        return self._settings.home / "logs"
