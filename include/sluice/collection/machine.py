"""A machine on which agents run: the one interface by which they are started, watched and stopped.

`local_machine` is the machine on which the platform itself runs. Others are reached over a network.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Literal, Protocol

from sluice.collection.agent import Agent
from sluice.collection.metrics import AgentCounters
from sluice.collection.pattern import Pattern

#: The PKCS #12 files among a machine's certificates: what its agents show to others, and what they trust.
IDENTITY, TRUST = "identity.p12", "trust.p12"
#: The files of an agent by name, instead of those that are deployed.
Texts = Mapping[str, str]


class ProcessState(StrEnum):
    """What is known of a process."""

    ALIVE = "alive"  # it runs
    DEAD = "dead"  # it ended, and nobody stopped it
    STOPPED = "stopped"  # it was stopped, or never started


@dataclass(frozen=True)
class Status:
    """What a machine says of an agent's process."""

    state: ProcessState
    pid: int = 0
    age: float = 0  # seconds since it was started
    version: str = ""  # that runs
    held: bool = False  # its input is stopped
    clean: bool = False  # its channel held nothing when it ended, or there never was one
    collectors: str = ""  # their addresses, as an edge has them


@dataclass(frozen=True)
class AgentFiles:
    """Where an agent's files lie on its machine."""

    home: PurePath  # names of log files below it are relative; its folder `logs` has the agent's log
    folder: PurePath  # the position, the channel
    identity_key: PurePath  # with which an edge signs its lines
    certificates: PurePath  # the folder of `IDENTITY` and `TRUST`, if agents of other machines are met

    @property
    def identity(self) -> PurePath:
        return self.certificates / IDENTITY

    @property
    def trust(self) -> PurePath:
        return self.certificates / TRUST

    @property
    def addresses(self) -> PurePath:
        """Where an edge that speaks TLS finds the collectors' addresses."""
        return self.folder / "collectors"


class ReadableFile(Protocol):
    """A file on any machine, to be read; one can seek in it, but not from its end."""

    def open(self, mode: Literal["rb"], /) -> io.BufferedReader: ...


class Machine(Protocol):
    """Where agents run.

    Each method of another machine than this one raises HostUnreachable if it does not answer. Then nothing is
    known of the agent, and nothing was done to it. AgentError says what else went wrong.
    """

    @property
    def name(self) -> str:
        """As an agent's `runs_on` has it."""

    @property
    def ours(self) -> bool:
        """Whether this is the platform's own machine. Another one may answer anything."""

    @property
    def versioned(self) -> bool:
        """Whether a new version lies beside the one that runs; else the agent stops before it is written."""

    @property
    def address(self) -> str:
        """Where what listens on it is reached, by agents of other machines, too, if there are any."""

    @property
    def bootstrap(self) -> str:
        """Where its collectors reach Kafka."""

    @property
    def logs_in(self) -> bool:
        """Whether its collectors log in to Kafka."""

    @property
    def certificates(self) -> str:
        """A checksum that changes with its certificates; empty where they are part of an agent's version."""

    def files(self, agent: str) -> AgentFiles:
        """Where the files of the agent of that name lie."""

    def refuses(self, agent: Agent) -> str:
        """Why the agent cannot be deployed, with the remedy, as far as this is seen without asking it."""

    def lay_out(self, agent: Agent) -> None:
        """Make the folders that a deployment promises."""

    def status(self, agent: Agent) -> Status:
        """What is known of the agent's process; one that was never deployed is stopped."""

    def version(self, agent: Agent, texts: Texts | None = None) -> str:
        """The version that should run, which is deployed or has these files; empty if not versioned."""

    def bring(self, agent: Agent, texts: Texts | None = None) -> str:
        """Bring what the version needs, beside what runs; returns what was done, for the log."""

    def start(self, agent: Agent, texts: Texts | None = None) -> str:
        """Have the version run that was brought; returns what runs, for the log."""

    def hold(self, agent: Agent, held: bool) -> None:
        """Stop the agent's input, or let it in again."""

    def stop(self, agent: Agent, seconds: float, drained: bool) -> None:
        """End the process by SIGTERM, and after so many seconds by SIGKILL. drained: its channel is empty."""

    def counters(self, agent: Agent) -> AgentCounters:
        """The agent's counters. Raises MetricsUnreachable."""

    def tell(self, agent: Agent, collectors: str) -> None:
        """Replace the file with the collectors' addresses."""

    def all_read(self, agent: Agent) -> bool:
        """Whether every file of the agent has been read to its end."""

    def read_to(self, agent: Agent) -> Mapping[str, int]:
        """Up to which byte an edge has read each log file that is there, by its name in the records."""

    def rewind(self, agent: Agent, to: Mapping[str, int]) -> Mapping[str, tuple[int, int]]:
        """Take a stopped edge back in these files: {name in the records: where a line begins}.

        Returns {file: (old, new)} of those that moved; none moves forward.
        """

    def recover(self, agent: Agent, held: int) -> Mapping[str, tuple[int, int]]:
        """Take a stopped edge back if its channel may have lost lines: by `held`, which it may hold."""

    def mend(self, agent: Agent) -> str:
        """Have a stopped agent's file channel start although the end of its log is torn.

        What it may have lost will be sent again. Returns what was done, for the log. Raises DBAPIError.
        """

    def log_files(self, front_end: str, patterns: Iterable[Pattern]) -> Mapping[str, ReadableFile]:
        """The log files of a front-end, by their name in the records."""

    def log_tail(self, agent: Agent, name: str = "", size: int = 256 << 10) -> bytes:
        """The end of the agent's own log, or of another file in its folder of logs.

        `out` has what its process printed, which says why a JVM did not start.
        """
