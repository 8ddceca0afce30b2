"""What an archive file says of itself, in the key-value metadata of its Parquet footer.

The footers are the truth about the archive; the index in PostgreSQL is made from them.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.archive import layout
from sluice.storage.hdfs import HdfsFile
from sluice.storage.stores import Store

PREFIX = "sluice."
#: In a footer of version 1 each record is a line, and `lines` is not said.
VERSION = 2
READABLE = (1, VERSION)
# A footer of eight columns and up to 100 row groups, with the days of half a year, is below 60 KiB: one read
# gets it.
TAIL_BYTES = 64 << 10
TRAILER_BYTES = 8
MAGIC = b"PAR1"
#: What older footers do not say, and what that means.
_LATER: dict[str, Any] = {"times": {}, "merged": 1, "groups": [], "redacted": 0, "revision": 0}


class UnreadableArchiveFile(RuntimeError):
    """A file under an archive name is no archive file."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"{path}: {why}. The archiver never leaves such a file: restore it from a snapshot, or move it "
            "out of the archive (what Kafka still has of its offsets is then archived again)"
        )


@dataclass(frozen=True)
class Footer:
    """One file's account of itself. Offsets are Kafka's; times are ms since the epoch.

    `first` is the previous file's `next`, and `next` is the position after the last record consumed. So the
    files of a partition follow each other without a gap even where Kafka's offsets have gaps (in this file
    they are `skipped` offsets): next - first = records + skipped. A file has whole records, and a row for
    each of their `lines`. A file with a `loss` has no records: Kafka no longer had these offsets, and `loss`
    says what was found. `records` counts a range that could not be read by its offsets. `days` counts the
    lines by day of event time (UTC), doubles included; `times` has the stretches of event time of each day's
    lines (first, last, first, last ...), and is empty in older files; `unparsed` counts the lines without an
    event time. `merged` says of how many files of the archiver's it was made. `groups` has, of each row group
    of a merged file, the first and the last event time of its lines; None where none of them has one.
    `redacted` counts the lines that were erased, by `revision` rewritings of the file: they stay in `lines`
    and `days`, and the times are those of before.
    """

    topic: str
    topic_id: str
    partition: int
    first: int
    next: int
    records: int  # of Kafka
    lines: int  # in these records
    skipped: int
    arrival_min: int
    arrival_max: int
    event_min: int | None
    event_max: int | None
    days: dict[str, int]
    unparsed: int
    generation: int  # of the consumer group, when the file was written
    claim: str  # the writer's random token for this file: tells it from another's file of the same name
    written_at: int
    loss: str | None = None
    times: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    merged: int = 1
    groups: tuple[tuple[int, int] | None, ...] = ()
    redacted: int = 0
    revision: int = 0
    version: int = VERSION

    @property
    def name(self) -> str:
        """The name of the file that says this."""
        if self.merged == 1 and not self.revision:
            return layout.file_name(self.first)
        return layout.merged_name(self.first, self.next, self.revision)

    def to_metadata(self) -> dict[str, str]:
        """The fields' values as JSON, by their names with the prefix."""
        return {PREFIX + name: json.dumps(value) for name, value in dataclasses.asdict(self).items()}

    @classmethod
    def from_metadata(cls, metadata: dict[bytes, bytes]) -> Footer:
        """Raises KeyError or ValueError where a field is missing or malformed."""
        said = {key: json.loads(value) for key, value in metadata.items() if key.startswith(PREFIX.encode())}
        version = said[(PREFIX + "version").encode()]
        if version not in READABLE:
            raise ValueError(f"sluice.version is {version}, this program reads {READABLE}")
        if version == 1:
            said[(PREFIX + "lines").encode()] = said[(PREFIX + "records").encode()]
        for name, value in _LATER.items():
            said.setdefault((PREFIX + name).encode(), value)
        values: dict[str, Any] = {
            field.name: said[(PREFIX + field.name).encode()] for field in dataclasses.fields(cls)
        }
        values["times"] = {day: tuple(ends) for day, ends in values["times"].items()}
        values["groups"] = tuple(ends and (ends[0], ends[1]) for ends in values["groups"])
        return cls(**values)


def read(store: Store, directory: str, file: HdfsFile) -> Footer:
    """The footer of a file in a partition's directory, by reading its end only.

    Raises UnreadableArchiveFile where it is not the archive file that its name says, HdfsError where it is
    gone.
    """
    path = f"{directory}/{file.name}"
    tail = (
        store.read(path, max(0, file.length - TAIL_BYTES), min(file.length, TAIL_BYTES))
        if file.length
        else b""
    )
    if len(tail) < TRAILER_BYTES or tail[-4:] != MAGIC:
        raise UnreadableArchiveFile(path, "it does not end as a Parquet file does")
    needed = int.from_bytes(tail[-TRAILER_BYTES:-4], "little") + TRAILER_BYTES
    if needed > len(tail):
        tail = store.read(path, max(0, file.length - needed), min(file.length, needed))
    return _named(path, parse(path, tail))


def of_opened(path: str, opened: pa.NativeFile) -> Footer:
    """The footer of a file that is open. Raises UnreadableArchiveFile as `read` does."""
    return _named(path, _parsed(path, opened))


def parse(path: str, tail: bytes) -> Footer:
    """The footer from the last bytes of a file (enough of them to hold it)."""
    return _parsed(path, pa.BufferReader(tail))


def _named(path: str, footer: Footer) -> Footer:
    if footer.name != layout.name_in(path):
        raise UnreadableArchiveFile(
            path, f"its footer says that it has offsets {footer.first} to {footer.next - 1}"
        )
    return footer


def _parsed(path: str, opened: pa.NativeFile) -> Footer:
    try:
        return Footer.from_metadata(pq.read_metadata(opened).metadata or {})
    except (KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise UnreadableArchiveFile(path, f"its footer cannot be read ({error!r})") from error
