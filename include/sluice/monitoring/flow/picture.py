"""What is shown of the platform: boxes of the flow, what hurts, tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

Kind = Literal["number", "share", "seconds", "time", "text"]
#: The boxes of the flow in the order of the lines: title, and what happens there.
BOXES: Mapping[str, tuple[str, str]] = {
    "edges": ("Edges", "Flume follows the front-ends' files."),
    "collectors": ("Collectors", "Flume gathers the edges' blocks and writes them to Kafka."),
    "topics": ("Topics", "Kafka keeps the records."),
    "speed": ("Speed layer", "Counts every line within seconds."),
    "projector": ("Projector", "Writes the results of the commits to HBase."),
    "archive": ("Archive", "Writes every line to HDFS, once."),
    "nightly": ("Nightly", "Counts each day again, from the archive."),
    "reconcile": ("Reconcile", "Compares both counts and publishes the day."),
}


class FlowState(StrEnum):
    """How a part of the platform is."""

    WORKS = "works"  # nothing is known to be wrong
    LATE = "late"  # it works, and something is slower or later than it should be
    BROKEN = "broken"  # it does not work
    UNKNOWN = "unknown"  # nobody knows yet


@dataclass(frozen=True)
class FlowRun:
    """A run of a DAG. id: empty for the DAG itself."""

    dag: str
    id: str
    state: str = ""


@dataclass(frozen=True)
class Fact:
    """A number of a box; None is not known. seconds: a length of time; share: 0 to 1."""

    label: str
    value: float | str | datetime | None
    kind: Kind = "number"
    unit: str = ""


@dataclass(frozen=True)
class Sparkline:
    """A number over the last 24 hours, oldest first; None where it is not known."""

    label: str
    unit: str
    points: tuple[float | None, ...]


@dataclass(frozen=True)
class Trouble:
    """Something that hurts. section: the anchor of the runbook's paragraph. bad: broken, not only late.

    recounted: the topic of which periods were set aside; empty where it is something else.
    """

    box: str  # a key of BOXES; empty for the platform as a whole
    message: str
    section: str
    bad: bool = True
    since: datetime | None = None
    run: FlowRun | None = None
    recounted: str = ""


@dataclass(frozen=True)
class Box:
    """A part of the flow."""

    key: str
    state: FlowState
    facts: tuple[Fact, ...]
    lines: tuple[Sparkline, ...]
    troubles: tuple[Trouble, ...]
    run: FlowRun | None
    empty: str = ""  # what to do so that there is something; empty if there is

    @property
    def title(self) -> str:
        return BOXES[self.key][0]

    @property
    def does(self) -> str:
        return BOXES[self.key][1]


@dataclass(frozen=True)
class DaemonBox:
    """A daemon. started: None where supervisord does not know it."""

    name: str
    state: FlowState
    problem: str
    started: datetime | None


@dataclass(frozen=True)
class AgentRow:
    """A Flume agent. fill: 0 to 1. rate: blocks a second. failed: failures of its sinks since its start.

    What is not known is None.
    """

    name: str
    tier: str
    answers: bool | None  # None: not known here
    fill: float | None
    blocks: float | None
    rate: float | None
    failed: int | None


@dataclass(frozen=True)
class FreshRow:
    """How fresh a topic is at each hop. within: seconds in which 95 % of the lines were counted."""

    topic: str
    within: float | None
    counted: datetime | None
    projected: datetime | None
    archived: datetime | None
    computed: str  # the newest day; empty: none
    published: str
    line: Sparkline


@dataclass(frozen=True)
class HopRow:
    """Lines (or blocks, or records) at a hop of a topic."""

    topic: str
    hop: str
    unit: str
    lately: float | None  # in the time of the samples
    ever: float | None


@dataclass(frozen=True)
class ShownHotKey:
    """A frequent key of a task."""

    key: tuple[str, ...]
    share: float
    workers: tuple[int, ...]
    line: Sparkline


@dataclass(frozen=True)
class WorkerLoad:
    """A worker's share of a task's load in the newest batch."""

    worker: int
    share: float
    line: Sparkline


@dataclass(frozen=True)
class HotTask:
    """How a task's lines are dealt out. imbalance: max / mean - 1 of the workers' loads; None: combined."""

    task: str
    topic: str
    strategy: str
    imbalance: float | None
    keys: tuple[ShownHotKey, ...]
    workers: tuple[WorkerLoad, ...]
    line: Sparkline


@dataclass(frozen=True)
class Picture:
    """The platform at one time. since: of the oldest sample; None: there is none."""

    at: datetime
    boxes: tuple[Box, ...]
    troubles: tuple[Trouble, ...]
    daemons: tuple[DaemonBox, ...]
    agents: tuple[AgentRow, ...]
    fresh: tuple[FreshRow, ...]
    hops: tuple[HopRow, ...]
    hot: tuple[HotTask, ...]
    since: datetime | None

    @property
    def state(self) -> FlowState:
        """The worst of all."""
        if any(each.bad for each in self.troubles):
            return FlowState.BROKEN
        if self.troubles:
            return FlowState.LATE
        states = {*(each.state for each in self.boxes), *(each.state for each in self.daemons)}
        return FlowState.WORKS if states <= {FlowState.WORKS} else FlowState.UNKNOWN
