"""One Flume agent, as it is deployed, and where its files lie on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sluice.collection.pattern import Pattern
from sluice.runtime.settings import Settings

#: The name of this machine among the machines on which agents run.
LOCAL = "local"
#: The file of an agent's folder that says what the agent is. The folder has it while the agent is deployed.
AGENT_FILE = "agent.json"


@dataclass(frozen=True)
class Agent:
    """One Flume agent, as needed to start, watch and stop it."""

    name: str
    tier: Literal["edge", "collector"]
    topic: str
    channel: Literal["memory", "file"]
    capacity: int  # of the channel, in blocks
    metrics_port: int
    port: int | None = None  # of a collector's Avro source
    files: tuple[str, ...] = ()  # an edge's patterns, {home} not expanded
    max_line: int = 0  # of an edge, in bytes: what is longer is cut
    runs_on: str = LOCAL  # the machine

    @property
    def process(self) -> str:
        """The name of its process record."""
        return f"flume-{self.name}"

    def patterns(self, home: Path) -> list[Pattern]:
        return [Pattern.parse(text, home) for text in self.files]

    @classmethod
    def from_json(cls, text: str) -> Agent:
        data: dict[str, Any] = json.loads(text)
        return cls(**{**data, "files": tuple(data["files"])})

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def folder(settings: Settings, name: str) -> Path:
    """Where an agent's configuration is kept here; on this machine its position and file channel, too."""
    return settings.home / "flume" / name
