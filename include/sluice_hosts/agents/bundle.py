"""What is copied to a host for an agent: a version of its files, and the jars, each named by its checksum.

On the host, below the instance's own folder::

    lib/<checksum>/                        the jars and Sluice's classes, for all agents
    agents/<name>/versions/<checksum>/     configuration, certificates, secrets, the keeper
    agents/<name>/current -> versions/...  the version in use
    agents/<name>/state/                   position, channel, logs, the process's record: no version's
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from sluice.collection.agent import AGENT_FILE, Agent, folder
from sluice.collection.command import agent_command
from sluice.collection.machine import IDENTITY, TRUST
from sluice.runtime.jvm import LIB, STAMP
from sluice.runtime.settings import Settings, make_secret
from sluice_hosts.links.copying import SUMS, Files, summed
from sluice_hosts.links.keeper import KEEPER
from sluice_hosts.trust import broker, enrolment

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Bundle:
    """One version of an agent's files, and where they lie on the host."""

    agent: PurePath  # the agent's folder
    lib: PurePath
    version: str
    files: Files
    jars: Files

    @property
    def folder(self) -> PurePath:
        return self.agent / "versions" / self.version


def logs_in(agent: Agent) -> bool:
    """Whether the agent logs in to Kafka: a collector does, an edge does not reach Kafka."""
    return agent.tier == "collector"


def bundle(
    settings: Settings, agent: Agent, host: enrolment.Enrolled, texts: Mapping[str, str] | None = None
) -> Bundle:
    """The version that the agent's deployed configuration asks for, or another one: its files' texts."""
    base = PurePath(host.directory)
    jars, jars_sum = _jars((LIB / "flume" / STAMP).read_text())
    lib = base / "lib" / jars_sum
    at = base / "agents" / agent.name
    own = enrolment.folder(settings, agent.runs_on)
    command = agent_command(
        agent,
        configuration=at / "current",
        state=at / "state",
        home=at / "state",
        address=_LOOPBACK,
        lib=lib,
        login=at / "current" / broker.LOGIN if logs_in(agent) else None,
    )
    if texts is None:
        paths = sorted(folder(settings, agent.name).glob("*.properties"))
        texts = {path.name: path.read_text() for path in paths}
    files: dict[str, Path | bytes] = {name: text.encode() for name, text in texts.items()}
    files |= {
        AGENT_FILE: agent.to_json().encode(),
        "keeper": KEEPER.read_bytes(),
        "java": host.java.encode(),
        "java.args": "".join(f"{argument}\n" for argument in command[1:]).encode(),
        IDENTITY: (own / IDENTITY).read_bytes(),
        TRUST: (own / TRUST).read_bytes(),
    }
    # Only what the agent needs: an edge proves identities, a collector logs in to Kafka.
    if logs_in(agent):
        files[broker.LOGIN] = broker.login(settings, agent.runs_on)
    else:
        files["identity.key"] = make_secret(settings.home, "identity").encode()
    sums, version = summed(files)
    return Bundle(at, lib, version, {**files, SUMS: sums}, jars)


@functools.lru_cache(maxsize=1)
def _jars(stamp: str) -> tuple[Files, str]:
    """The files of the jars' folder; ``stamp`` changes when `make setup` makes others."""
    found: dict[str, Path | bytes] = {
        str(path.relative_to(LIB / "flume")): path
        for path in sorted((LIB / "flume").rglob("*"))
        if path.is_file() and path.suffix in (".jar", ".class")
    }
    sums, checksum = summed(found)
    return {**found, SUMS: sums}, checksum
