"""An instance that is old: what an almost empty batch, and what people and the night, ask of PostgreSQL."""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from sluice.engine.wire import FOUND, STATED
from sluice.runtime.positions import UNREAD
from sluice.runtime.settings import Settings
from sluice.speed.ledger import INTERVALS, ByteLedger
from sluice.speed.partition_pass import Gathered
from sluice.speed.progress import SpeedProgress
from sluice.speed.topic_tasks import TopicTasks
from sluice.speed.writer import CountedBatch, Writer
from sluice.state.changed_periods import changed
from sluice.storage.postgres import engine
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.commits import CommitLog, TopicClaim
from sluice.tasks.store import TaskStore
from sluice_lab.bench import aged, workload
from sluice_lab.bench.aged import PARTITIONS, Age
from sluice_lab.bench.database import server
from sluice_lab.bench.databases import database
from sluice_lab.bench.old_reads import LINES, Extent, OldReads, new
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table

NAME = "age"
TASKS, WARM, ROUNDS, OPENS, READS, NIGHTS = 16, 20, 300, 5, 40, 5
RATIO_LIMIT, OPEN_LIMIT, READ_LIMIT = 1.1, 1.0, 1.2
PATIENCE = 10.0
RELEASE_SECONDS = 0.3  # for PostgreSQL to notice that a connection with a lock is closed
MINUTE_MS = 60_000

WHAT = """\
Two databases in one PostgreSQL with the platform's configuration, {tasks} tasks active in each. One is new.
The other is that of an instance with {versions:,} task versions that are over, and with {days} days, which is
how long retention keeps rows, of {commits:,} commits, {periods:,} periods with state, {starts} starts of the
speed layer and {files} log files a day. (A topic whose lines never pause has up to 86,400 commits a day; all
that is read of them is read by a key.) An *almost empty batch* is what the speed layer asks of PostgreSQL for
a batch of one line: the active tasks, the commit, and the projector's beat. The databases take turns for
{rounds} rounds; figures are medians.

*Reads* are asked of two more databases, with the same traffic: one of {days} days and one of two. Both were
pruned as the DAG `retention` does it, and then counted {open:,} commits: a topic whose lines never pause has
123,000 a day. *audit*: all that `sluice audit` reads. *status*: the open alerts, and how far the speed
layer is. *reconciliation's coverage*: whether the archive is whole below a day's cut. *a page of results*:
where the periods of the last day come from. *a night*: the run of yesterday and its reconciliation, all but
what Spark, HBase and Hive do for them, which depends on the day alone: the workers' plan counts {lines:,}
lines in this process. Figures of reads are the least of {reads} rounds,
of a night the least of {nights}."""

Laps = dict[str, float]


def run(quick: bool = False, days: int | None = None) -> Outcome:
    """days: how old the instance is; default: what retention keeps."""
    how = Age(versions=4_000, days=40, commits=250, periods=240) if quick else Age()
    how = replace(how, days=days) if days else how
    extent = Extent(TASKS, open=12_300) if quick else Extent(TASKS)
    rounds = ROUNDS // 10 if quick else ROUNDS
    with ExitStack() as stack:
        settings = stack.enter_context(server(NAME))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        layers = {}
        for name, own in (("new", None), ("old", how)):
            where = stack.enter_context(database(settings, f"bench_{name}"))
            layers[name] = SpeedLayerQueries(where, scratch / name, own)
        sys.stderr.write(f"  {NAME}: {how.versions:,} versions and {how.head:,} commits are there\n")
        opened = {name: [layer.open() for _ in range(OPENS)] for name, layer in layers.items()}
        laps = alternately({name: layer.batch for name, layer in layers.items()}, rounds)
        reads = {}
        for name, own in (("new", new(how)), ("old", how)):
            where = stack.enter_context(database(settings, f"bench_read_{name}"))
            TaskStore(engine(where)).apply(workload.tasks(TASKS), "bench")
            reads[name] = OldReads(where, own, extent)
            sys.stderr.write(f"  {NAME}: {reads[name].commits():,} rows of commits are left ({name})\n")
        read = alternately({name: each.laps for name, each in reads.items()}, READS, warm=2)
        nights = alternately({name: each.night for name, each in reads.items()}, NIGHTS, warm=1)
        read = with_nights(read, nights)
    what = WHAT.format(
        tasks=TASKS, versions=how.versions, days=how.days, commits=how.commits, periods=how.periods,
        starts=how.starts, files=how.files, rounds=rounds, open=extent.open, reads=READS,
        lines=LINES, nights=NIGHTS,
    )  # fmt: skip
    return outcome(laps, opened, read, what, quick)


def outcome(
    laps: Mapping[str, Sequence[Laps]],
    opened: Mapping[str, Sequence[float]],
    read: Mapping[str, Sequence[Laps]],
    what: str,
    quick: bool,
) -> Outcome:
    whole = {name: statistics.median(sum(each.values()) for each in found) for name, found in laps.items()}
    bars = [
        Bar("an almost empty batch, old instance over new", whole["old"] / whole["new"], RATIO_LIMIT, "most"),
        Bar("start of a writer, old instance", statistics.median(opened["old"]), OPEN_LIMIT, "most", "s"),
    ]
    steps, reads = by_step(laps, statistics.median), by_step(read, min)
    bars += [
        Bar(f"{step}, old instance over new", old / new, READ_LIMIT, "most")
        for step, (new, old) in reads.items()
    ]
    steps["together"] = [whole["new"], whole["old"]]
    steps["start of a writer"] = [statistics.median(opened[name]) for name in ("new", "old")]
    tables = [
        Table(title, ["step", "new instance", "old instance", "ratio"], rows(own))
        for title, own in (("Milliseconds with PostgreSQL", steps), ("Milliseconds of reads", reads))
    ]
    return Outcome(NAME, what, bars, tables, quick=quick)


def with_nights(
    read: Mapping[str, Sequence[Laps]], nights: Mapping[str, Sequence[Laps]]
) -> dict[str, list[Laps]]:
    """The rounds of reads, each with a night, of which there are fewer."""
    return {
        name: [lap | night for lap, night in zip(laps, itertools.cycle(nights[name]), strict=False)]
        for name, laps in read.items()
    }


def by_step(laps: Mapping[str, Sequence[Laps]], of: Callable[[list[float]], float]) -> dict[str, list[float]]:
    """One figure of the seconds of each step: in the new instance and in the old one."""
    return {
        step: [of([each[step] for each in laps[name]]) for name in ("new", "old")] for step in laps["new"][0]
    }


def rows(steps: Mapping[str, Sequence[float]]) -> list[list[Cell]]:
    """In milliseconds, with the ratio."""
    return [[step, new * 1000, old * 1000, old / new] for step, (new, old) in steps.items()]


def alternately(
    ways: Mapping[str, Callable[[], Laps]], rounds: int, warm: int = WARM
) -> dict[str, list[Laps]]:
    """What each way reports, in rounds in which the ways take turns; the first `warm` do not count."""
    found: dict[str, list[Laps]] = {name: [] for name in ways}
    for turn in range(-warm, rounds):
        for name in sorted(ways, reverse=turn % 2 == 1):
            laps = ways[name]()
            if turn >= 0:
                found[name].append(laps)
    return found


class SpeedLayerQueries:
    """What a topic's speed layer asks of PostgreSQL, batch by batch; a database is aged first, or new."""

    def __init__(self, settings: Settings, scratch: Path, how: Age | None) -> None:
        database_ = engine(settings)
        TaskStore(database_).apply(workload.tasks(TASKS), "bench")
        if how is not None:
            aged.age(settings, TASKS, how)
        self._database = database_
        self._log = CommitLog(database_, "logs", PATIENCE)
        self._tasks = TopicTasks(database_, "logs", PATIENCE, SpeedProgress(scratch / "progress.json"))
        self._backfills = Backfills(database_)
        self._writer: Writer | None = None
        self._number = 0

    def open(self) -> float:
        """Start a writer; the seconds that it takes."""
        if self._writer is not None:
            self._writer.close()
            time.sleep(RELEASE_SECONDS)
        offsets: Any = SimpleNamespace(
            bounds=_bounds, close=lambda: None, check_topic=lambda: None, read_at={}, topic_id="id"
        )
        nowhere: Any = None
        claim = TopicClaim(self._database, "logs", "speed_layer")
        self._writer = Writer(self._log, claim, nowhere, offsets, tasks=2)
        began = time.perf_counter()
        self._writer.open()
        return time.perf_counter() - began

    def batch(self) -> Laps:
        """The seconds of each step of an almost empty batch."""
        writer, self._number = self._opened(), self._number + 1
        steps: list[tuple[str, Callable[[], Any]]] = [
            ("active tasks", self._look),
            ("periods", lambda: self._log.periods(self._keys())),
            ("commit", lambda: writer.commit(self._end(), self._active, self._counted(writer.seq + 1))),
            ("what is to be projected", self._project),
            ("note what is projected", lambda: self._log.set_projected(writer.seq)),
        ]
        laps = {}
        for name, step in steps:
            began = time.perf_counter()
            step()
            laps[name] = time.perf_counter() - began
        return laps

    def _opened(self) -> Writer:
        if self._writer is None:
            raise RuntimeError("a batch needs a writer: call open first")
        return self._writer

    def _look(self) -> None:
        self._tasks.format()
        self._active = self._tasks.active()
        self._tasks.default_grouping()

    def _project(self) -> None:
        """As the projector does: what changed, its blocks' periods, and the revision of backfills."""
        found = self._log.changed_since(self._log.projected())
        self._tasks.versions({key[:2] for key in found.snapshot.periods})
        again = self._log.snapshot(sorted(found.snapshot.periods))
        if self._log.newest() != again.head or len(again.periods) != TASKS:
            raise AssertionError("another batch is to be projected")
        self._backfills.revision("logs")

    def _keys(self) -> list[tuple[int, int, int]]:
        """The present minute of each task; every tenth batch begins another one."""
        start = (round(time.time() * 1000) + self._number // 10 * MINUTE_MS) // MINUTE_MS * MINUTE_MS
        return [(number, 1, start) for number in range(1, TASKS + 1)]

    def _end(self) -> dict[str, int]:
        return {partition: offset + 1 for partition, offset in self._opened().position.items()}

    def _counted(self, seq: int) -> CountedBatch:
        begin = 1_000 * self._number
        seen = {"host": ["web1"], "src_file": ["access.log"], "start": [begin], "end": [begin + 1_000]}
        ledger = ByteLedger.from_table(pa.table(seen, schema=INTERVALS))
        there = self._log.periods(self._keys())
        stated = [
            {"task_id": key[0], "version": key[1], "period_start": key[2], "layout": 1, "blocks": 1,
             "since": there[key].since if key in there else seq, "bytes": 60_000,
             "widen": False, "late": False}
            for key in self._keys()
        ]  # fmt: skip
        found = replace(Gathered.of(FOUND.empty_table()), stated=pa.Table.from_pylist(stated, schema=STATED))
        return CountedBatch(found, ledger, changed(found.stated, seq)[0])


def _bounds() -> Any:
    """Kafka's bounds of a topic that has more than was ever counted."""
    partitions = range(PARTITIONS)
    return SimpleNamespace(
        topic_id="id",
        logs=dict.fromkeys(partitions, UNREAD),
        first=dict.fromkeys(partitions, 0),
        next=dict.fromkeys(partitions, 1 << 40),
    )
