"""The archiver scaled from one member to four and to two, under load: nothing lost, nothing doubled."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kafka import KafkaProducer

from sluice.archive import index
from sluice.monitoring.lag.cost import costs
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import rebalances
from sluice.transmission.lag import archive_group
from sluice.transmission.mac import identity_key
from sluice.transmission.topics import Topics
from sluice_lab.bench import stack, workload
from sluice_lab.bench.archive import cut
from sluice_lab.bench.archiver_trial import ArchiverTrial, Contents
from sluice_lab.bench.headers import to_headers
from sluice_lab.bench.outcome import Bar, Curve, Outcome, Table
from sluice_lab.waiting import until

NAME = "archivers"
PARTITIONS = 8
#: Far below what one member archives, so that every phase can archive what comes.
LOAD_MB, QUICK_MB = 2.0, 1.0
#: How long each phase lasts once its members share the partitions.
SECONDS, QUICK_SECONDS = 30.0, 8.0
LOOK_SECONDS = 1.0
PATIENCE = 180.0
KEEPS_UP = 0.9

WHAT = """\
The archiver of one topic of {partitions} partitions on instance `{instance}`, as processes of its own, while
{load:g} MB/s come in blocks of up to 64 KiB. One member runs; three join it; then one is stopped and one is
killed (`kill -9`). Each phase lasts {seconds:g} s from when its members share the partitions. At the end the
lines of every file in HDFS are compared with those in Kafka, by place and content, and the files' chains are
verified. *Stood still*: the longest time in which nobody read a partition, by the members' own book of
rebalances; a member that was killed writes nothing, so its partitions count from their next assignment."""


@dataclass(frozen=True)
class Phase:
    """What was seen while so many members ran. came, archived: megabytes a second."""

    name: str
    members: int
    seconds: float
    came: float
    archived: float


@dataclass(frozen=True)
class Look:
    """Seconds since the load began, and the megabytes that came and that were archived until then."""

    at: float
    came: float
    archived: float


class SteadyLoad:
    """Sends blocks at a steady rate in a thread, as a context. records, bytes, lines: sent so far."""

    def __init__(self, settings: Settings, topic: str, blocks: Sequence[bytes], megabytes: float) -> None:
        self._settings, self._topic, self._blocks = settings, topic, blocks
        self._rate = megabytes * 1e6
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self.records = self.bytes = 0
        self.lines = 0
        self._error: Exception | None = None

    def __enter__(self) -> SteadyLoad:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE)

    def check(self) -> None:
        """Raise what ended the load."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._send()
        except Exception as error:
            self._error = error

    def _send(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._settings.kafka.bootstrap, linger_ms=20, compression_type="lz4",
            batch_size=256 << 10,
        )  # fmt: skip
        key, at, began = identity_key(self._settings), 0, time.monotonic()
        while not self._over.is_set():
            while self.bytes < (time.monotonic() - began) * self._rate:
                body = self._blocks[self.records % len(self._blocks)]
                headers = to_headers("web1", "access.2015-05-17.log", at, body, key)
                producer.send(self._topic, body, headers=headers, partition=self.records % PARTITIONS)
                at += len(body) + 1
                self.records, self.bytes = self.records + 1, self.bytes + len(body)
                self.lines += body.count(b"\n") + 1
            self._over.wait(0.02)
        producer.flush()
        producer.close()


def run(quick: bool = False) -> Outcome:
    load, seconds = (QUICK_MB, QUICK_SECONDS) if quick else (LOAD_MB, SECONDS)
    blocks = [b"\n".join(block) for block in cut(workload.lines(100_000, 100_000))]
    with (
        stack.running() as settings,
        TemporaryDirectory() as folder,
        closing(ArchiverTrial(settings, Path(folder), PARTITIONS)) as made,
    ):
        with SteadyLoad(settings, made.topic, blocks, load) as loading:
            phases, looks = scale(made, loading, seconds)
        loading.check()
        archived_all(made, loading)
        lost, doubled = compared(made.in_kafka(), made.archived())
        made.ends()
        still = stood_still(settings, made.topic)
        instance = settings.instance
    what = WHAT.format(partitions=PARTITIONS, instance=instance, load=load, seconds=seconds)
    tables = [
        Table(
            "While so many members ran",
            ["", "members", "s", "MB/s came", "MB/s archived"],
            [[each.name, each.members, each.seconds, each.came, each.archived] for each in phases],
        ),
        Table(
            "All of it",
            ["", "figure"],
            [
                ["lines", loading.lines],
                ["partitions that changed hands", len(still)],
                ["stood still at most, s", max(still, default=0.0)],
            ],
        ),
    ]
    return Outcome(NAME, what, bars(lost, doubled, phases), tables, [curve(looks)], quick=quick)


def bars(lost: int, doubled: int, phases: Sequence[Phase]) -> list[Bar]:
    return [
        Bar("lines lost", lost, 0, "most", "lines"),
        Bar("lines archived twice", doubled, 0, "most", "lines"),
        *(
            Bar(f"MB/s archived, share of what comes: {each.name}", each.archived / each.came, KEEPS_UP)
            for each in phases
        ),
    ]


def curve(looks: Sequence[Look]) -> Curve:
    """What came and what was archived by then, over time."""
    at = [look.at for look in looks]
    lines = {"came": [at, [look.came for look in looks]], "archived": [at, [look.archived for look in looks]]}
    return Curve("The archive while members come and go", "s", "MB", lines, log_x=False, log_y=False)


def compared(kafka: Contents, archive: Contents) -> tuple[int, int]:
    """Lines of Kafka that the archive lacks or has otherwise, and lines that it has more than once."""
    lost = doubled = 0
    for partition, lines in kafka.items():
        found = archive[partition]
        lost += len(set(lines) - set(found))
        doubled += len(found) - len({(offset, number) for offset, number, *_ in found})
    return lost, doubled


def scale(made: ArchiverTrial, load: SteadyLoad, seconds: float) -> tuple[list[Phase], list[Look]]:
    """One member, four, two. Returns what was seen in each phase, and all looks."""
    limits: dict[str, Any] = {"max_lines": 200_000, "max_age_seconds": 1.0}
    watch = ArchiveWatch(made, load)
    names = ["archiver", "archiver-2", "archiver-3", "archiver-4"]
    members = [made.process(member=names[0], **limits)]
    watch.until_shared(names[:1])
    phases = [watch.phase("one member, before", 1, seconds)]
    members += [made.process(member=name, **limits) for name in names[1:]]
    watch.until_shared(names)
    phases.append(watch.phase("four members", 4, seconds))
    members[3].send_signal(signal.SIGKILL)
    if made.stop(members[2]):
        raise RuntimeError(f"archiver-3 did not stop in an orderly way:\n{made.log(members[2])[-2000:]}")
    watch.until_shared(names[:2])
    phases.append(watch.phase("two members, after", 2, seconds))
    return phases, watch.looks


class ArchiveWatch:
    """Looks every second at what came and what the archive's index has."""

    def __init__(self, made: ArchiverTrial, load: SteadyLoad) -> None:
        self._made, self._load, self._began = made, load, time.monotonic()
        self.looks: list[Look] = []

    def look(self) -> Look:
        self._load.check()
        records, size = self._load.records, self._load.bytes
        archived = sum(index.positions(self._made.settings, self._made.topic).values())
        mean = size / max(1, records)
        self.looks.append(Look(time.monotonic() - self._began, size / 1e6, archived * mean / 1e6))
        return self.looks[-1]

    def until_shared(self, members: Sequence[str]) -> None:
        """Wait until these members have all partitions, and each has some."""

        def shared() -> bool:
            self.look()
            with Topics(self._made.settings) as topics:
                owners = topics.owners(archive_group(self._made.topic))
            return len(owners) == PARTITIONS and set(owners.values()) == set(members)

        until(shared, PATIENCE, f"{', '.join(members)} share the partitions")

    def phase(self, name: str, members: int, seconds: float) -> Phase:
        """So many seconds with these members."""
        first = self.look()
        while self.looks[-1].at - first.at < seconds:
            time.sleep(LOOK_SECONDS)
            self.look()
        last = self.looks[-1]
        took = last.at - first.at
        found = Phase(
            name, members, took, (last.came - first.came) / took, (last.archived - first.archived) / took
        )
        stack.say(f"{NAME}: {found}")
        return found


def archived_all(made: ArchiverTrial, load: SteadyLoad) -> None:
    """Wait until the archive's index has every record."""
    everything = load.records

    def all_there() -> bool:
        return sum(index.positions(made.settings, made.topic).values()) >= everything

    until(all_there, PATIENCE, "the archive has every record")


def stood_still(settings: Settings, topic: str) -> list[float]:
    """How long each partition stood still whenever it changed hands."""
    with engine(settings).connect() as connection:
        found = costs(rebalances.last(connection, topic, rebalances.KEPT), rebalances.KEPT)
    gained = [seconds for each in found[::-1] for seconds in each.by_partition.values()]
    return [seconds for seconds in gained[PARTITIONS:] if seconds is not None]
