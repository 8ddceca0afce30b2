"""Progress files: what each process that runs for ever says of itself, for others to read.

``var/<instance>/run/<member>.progress.json`` is replaced whole, so a reader never sees half of it. Only this
module knows what is in it: a driver of the speed layer writes `SpeedLayerProgress`, an archiver
`ArchiverProgress`, and the watch `WatchProgress`, each every second or two, even when idle. Times are UTC, in
ISO 8601 to the millisecond; seconds since 1970, which earlier releases wrote, are read as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer

from sluice.runtime.detached import PROGRESS_SUFFIX
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


Moment = Annotated[AwareDatetime, PlainSerializer(_text, when_used="json")]


class DriverState(StrEnum):
    """What a driver of the speed layer does as a whole."""

    STARTING = "starting"  # it counts nothing yet
    RUNNING = "running"  # it counts the topics that are its own
    STOPPED = "stopped"  # it ended in order
    FENCED = "fenced"  # another process counts in its place


class CountingState(StrEnum):
    """What the speed layer does with a topic."""

    STARTING = "starting"  # it reads the committed state, or waits to try again
    COUNTING = "counting"  # batches are counted, or no line comes
    HELD = "held"  # a disk is nearly full: the lines wait in Kafka
    FAILED = "failed"  # the last attempt failed; the newest of `errors` says why
    STOPPED = "stopped"  # it was told to stop


class ArchivingState(StrEnum):
    """What an archiver does with a topic."""

    NO_TOPIC = "waiting for the topic"  # Kafka does not have it
    NO_KAFKA = "waiting for Kafka"  # Kafka does not answer
    AGAIN = "starting again"  # something unexpected ended the session
    ARCHIVING = "archiving"  # it is a member of the topic's group
    STOPPING = "stopping"  # it gives up its partitions in order
    STOPPED = "stopped"  # it has given them up
    ENDED = "ended"  # the process died, and the next one has said so


class PartitionState(StrEnum):
    """What an archiver does with a partition."""

    POSITIONING = "deriving its position"  # from the files that are there
    ARCHIVING = "archiving"  # it writes files
    WAITING = "waiting"  # for a store that is away, or for space on a disk
    CHANGED = "topic changed"  # the topic was deleted or made again
    REFUSED = "refused"  # the files there contradict each other; only a person can help
    STOPPED = "stopped"  # it was given up


class ProgressFile(BaseModel):
    """What each file has. updated_at: when it was written; None where there was no file to read."""

    updated_at: Moment | None = None


Document = TypeVar("Document", bound=ProgressFile)


class TopicError(BaseModel):
    """An error of a topic, or of its projector."""

    at: Moment
    message: str


class ProjectionProgress(BaseModel):
    """The results that were written last."""

    seq: int  # of the newest commit whose results are all written
    results: int = 0  # that had changed
    ms: int = 0  # that it took
    at: Moment | None = None


class CountedTopic(BaseModel):
    """A topic as the speed layer counts it.

    Counts are sums since its start, in lines if nothing else is said. `driver` and `updated_at` are not in
    the file: who reads the files of all drivers as one sets them (`stack.jobs.speed_layer`).
    """

    model_config = ConfigDict(validate_assignment=True)

    state: CountingState = CountingState.STARTING
    errors: list[TopicError] = Field(default_factory=list)  # the newest last

    seq: int | None = None  # of the newest commit
    token: str | None = None  # the writer's
    end: dict[str, int] | None = None  # the offset after the last record that was counted, by partition
    committed_at: Moment | None = None
    lag: int | None = None  # Kafka's records that wait; each has one line or more
    tasks: list[str] = Field(default_factory=list)  # labels of the versions that are counted: 1v2
    blocks: int | None = None  # of state that the newest batch wrote
    newest_arrival: int | None = None  # of the newest line that was counted (ms since the epoch)
    grouping: dict[str, dict[str, Any]] = Field(default_factory=dict)  # `GroupingReport` by label
    durations: dict[str, int] = Field(default_factory=dict)  # of the newest batch's laps (ms)
    batch_at: Moment | None = None
    projection: ProjectionProgress | None = None

    batches: int = 0
    lines: int = 0  # that came
    doubled: int = 0
    counted: int = 0
    dead: int = 0
    unmatched: int = 0  # have a time and are not of the topic's format
    bytes: int = 0
    pass_us: int = 0  # CPU time of the pass over the lines (microseconds)
    freshness_ms: int = 0  # all lines' waits, together
    freshness: dict[str, int] = Field(default_factory=dict)  # by the most seconds from arrival to commit
    dead_reasons: dict[str, int] = Field(default_factory=dict)
    task_lines: dict[str, int] = Field(default_factory=dict)  # by version's label, as the three below
    task_skipped: dict[str, int] = Field(default_factory=dict)  # without a measure
    task_unmatched: dict[str, int] = Field(default_factory=dict)  # skipped (`engine.outcomes`)
    task_too_long: dict[str, int] = Field(default_factory=dict)  # skipped, too

    driver: str | None = Field(default=None, exclude=True)
    updated_at: Moment | None = Field(default=None, exclude=True)


class PartitionProgress(BaseModel):
    """A partition as its archiver writes it; files and lines since that began."""

    state: PartitionState = PartitionState.POSITIONING
    message: str = ""  # why it waits or is refused
    position: int | None = None  # the offset after the last record that is archived
    buffered: int = 0  # lines that are in no file yet
    files: int = 0
    lines: int = 0
    end: int | None = None  # of Kafka's log
    lag: int | None = None  # records
    pace: float | None = None  # records a second


class ArchivedTopic(BaseModel):
    """A topic as one archiver sees it."""

    state: ArchivingState
    message: str = ""
    topic_id: str | None = None
    generation: int | None = None  # of the consumer group
    speed: float | None = None  # records a second that this member can archive
    partitions: dict[int, PartitionProgress] = Field(default_factory=dict)  # those that it has now
    age: float = 0.0  # seconds since its thread said so, when the file was written


class JobProgress(ProgressFile):
    """The file of a member of a job."""

    pid: int = 0
    topics: Mapping[str, CountedTopic | ArchivedTopic] = Field(default_factory=dict)


class SpeedLayerProgress(JobProgress):
    """The file of a driver, or those of all drivers as one."""

    state: DriverState | None = None
    started_at: Moment | None = None
    topics: dict[str, CountedTopic] = Field(default_factory=dict)


class ArchiverProgress(JobProgress):
    """The file of an archiver, or those of all archivers as one."""

    topics: dict[str, ArchivedTopic] = Field(default_factory=dict)


class AgentAnswer(BaseModel):
    """What a Flume agent says. fill: of its channel, 0 to 1; the others are blocks."""

    answers: bool
    fill: float | None = None
    blocks: float | None = None
    put: float | None = None
    taken: float | None = None


class HopLag(BaseModel):
    """How far a consumer is behind on a topic.

    seconds: the longest wait of the partitions whose oldest record could be read, None if there is none;
    unread: how many partitions could not.
    """

    records: int = 0
    seconds: float | None = None
    unread: int = 0


class DiskSpace(BaseModel):
    """A file system that has folders of the instance; in bytes."""

    size: int
    free: int
    reserve: int


#: What the watch calls its file.
WATCH = "watch"


class WatchProgress(ProgressFile):
    """What the watch saw when it looked last. A part that it could not read is None."""

    daemons: dict[str, str] | None = None  # the problem, empty for a healthy one
    agents: dict[str, AgentAnswer] | None = None
    lag: dict[str, dict[str, HopLag]] | None = None  # by topic and hop: speed, archive
    books: dict[str, dict[str, Any]] | None = None  # as `monitoring.books`
    disks: dict[str, DiskSpace] | None = None  # by the first of its folders
    held: dict[str, bool] | None = None  # intake, layers


def progress_file(settings: Settings, member: str) -> Path:
    """Where a member of a job writes its progress, or the watch."""
    return settings.home / "run" / f"{member}{PROGRESS_SUFFIX}"


def read(path: Path, kind: type[Document]) -> Document:
    """What the file says; an empty document, without `updated_at`, where it says nothing that can be read.

    Raises OSError if the file is there and cannot be opened.
    """
    try:
        return parse(path.read_bytes(), kind)
    except (FileNotFoundError, ValueError):
        return kind()


def parse(text: bytes, kind: type[Document]) -> Document:
    """A file's content as a document. Raises ValueError."""
    return kind.model_validate(json.loads(text))


def write(path: Path, document: ProgressFile) -> None:
    """Replace the file. Raises OSError."""
    # Pydantic's own JSON takes no halves of characters, which keys from lines may have.
    write_whole(path, json.dumps(document.model_dump(mode="json"), indent=1), durable=False)
