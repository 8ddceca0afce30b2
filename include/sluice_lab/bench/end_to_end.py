"""The whole platform: the rate it holds, the freshness of results, batches, and overload."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from sluice.engine.rowkey import RowKey
from sluice.runtime.settings import Settings
from sluice.stack import jobs
from sluice.storage.hbase import ONLINE, RESULTS, HBase
from sluice.storage.postgres import engine
from sluice.tasks import TaskSpec
from sluice.tasks.period import parse_period
from sluice.tasks.store import TaskStore
from sluice_lab.bench import stack, workload
from sluice_lab.bench.cpu import Cpu, between
from sluice_lab.bench.outcome import Bar, Cell, Curve, Outcome, Table
from sluice_lab.bench.pressure import (
    MEMORY_SECONDS,
    PROBE,
    TOPIC,
    PlatformWatch,
    Seen,
    TrafficWriter,
    writing,
)

NAME = "end_to_end"
TASKS = 16  # the probe among them
PREFIX = "bench_"
OVERLOAD_RATE = 100_000.0
#: Lines a second that two cores hold.
RATE_LIMIT = 40_000.0
#: The rate held over the throughput under overload: a platform that collapses under load holds far less.
HELD_LIMIT = 0.5
#: The CPU time of all processes for a line over that of the pass that counts it.
PASSES_LIMIT = 8.0
P50_LIMIT, P99_LIMIT, EMPTY_LIMIT, MEMORY_LIMIT = 2.0, 4.0, 0.3, 1.05
# Growth of the lag below this share of the rate is noise from batches that begin and end.
GROWTH = 0.01
STEP = 0.9  # the next rate to try if one was not held; the throughput itself leaves no room for noise
START_SECONDS, DRAIN_SECONDS = 240.0, 900.0


@dataclass(frozen=True)
class Times:
    """How long each part takes, in seconds."""

    overload: float = 20.0
    trial: float = 60.0
    hold: float = 600.0
    fresh: float = 180.0
    empty: float = 60.0


QUICK = Times(overload=5.0, trial=20.0, hold=45.0, fresh=30.0, empty=20.0)

WHAT = """\
Instance `{instance}` with all its daemons on this machine, {tasks} tasks active. Lines of 150 bytes
with the present time are appended to the front-ends' log files and go through Flume, Kafka and the
speed layer to HBase; the archiver and Airflow run beside it. *Overload*: {overload:,.0f} lines a
second for {overload_seconds:.0f} s, then none until all are counted; the throughput is all of them
over all that time. *Hold*: from {step:.0%} of this throughput downwards, the first rate at which
the lag (lines written and not counted) does not grow for {hold:.0f} s. *Freshness* at half that
rate: from the end of the write of a single line until its result is read from HBase, {probes}
times. *Empty batch*: one line every two seconds, the newest batch's laps together. Memory is the
sum of PSS over all processes of the instance, every {memory:.0f} s, last third of the hold against the
second. *CPU* is user and system time of all these processes during the hold, and *the pass* is what the
executors spend from reading a batch's records in Kafka to its partial aggregates."""


def run(quick: bool = False) -> Outcome:
    times = QUICK if quick else Times()
    with stack.running() as settings, tasks_applied(settings) as active, writing(settings) as (writer, watch):
        empty = empty_batches(writer, watch, times.empty)
        throughput, caught_up = overload(writer, watch, times.overload)
        rate, hold, costs = highest_rate(writer, watch, throughput, times)
        drained(writer, watch)
        fresh = freshness(settings, writer, watch, rate / 2, times.fresh)
        drained(writer, watch)
        instance = settings.instance
    what = WHAT.format(
        instance=instance, tasks=active, overload=OVERLOAD_RATE, overload_seconds=times.overload,
        hold=times.hold, probes=len(fresh), step=STEP, memory=MEMORY_SECONDS,
    )  # fmt: skip
    return outcome(EndToEndFigures(rate, hold, costs, fresh, empty, caught_up, throughput), what, quick)


@dataclass(frozen=True)
class EndToEndFigures:
    """Everything that was measured."""

    rate: float
    hold: Sequence[Seen]
    costs: Mapping[str, float]  # CPU microseconds a line during the hold, by part of the platform
    fresh: Sequence[float]
    empty: float
    caught_up: float
    throughput: float


def outcome(found: EndToEndFigures, what: str, quick: bool) -> Outcome:
    rate, hold, fresh = found.rate, found.hold, found.fresh
    whole, speed = (growth(hold, of) for of in ("memory", "speed_memory"))
    total, one_pass = sum(found.costs.values()), pass_cost(hold)
    bars = [
        Bar("rate held", rate, RATE_LIMIT, unit="lines/s"),
        Bar("rate held over throughput under overload", rate / found.throughput, HELD_LIMIT),
        Bar("growth of the lag at that rate, share of the rate", slope(hold) / rate, GROWTH, "most", ""),
        Bar("CPU of the platform a line over that of the pass", total / one_pass, PASSES_LIMIT, "most"),
        Bar("freshness at half that rate, median", percentile(fresh, 50), P50_LIMIT, "most", "s"),
        Bar("freshness at half that rate, 99th percentile", percentile(fresh, 99), P99_LIMIT, "most", "s"),
        Bar("fixed cost of an almost empty batch", found.empty, EMPTY_LIMIT, "most", "s"),
        Bar("memory of the instance, last third against second", whole, MEMORY_LIMIT, "most"),
        Bar("memory of the speed layer, last third against second", speed, MEMORY_LIMIT, "most"),
        Bar("time to catch up after an overload", found.caught_up, DRAIN_SECONDS, "most", "s"),
    ]
    rows: list[list[Cell]] = [
        ["rate held, lines/s", rate],
        ["throughput under overload, lines/s", found.throughput],
        ["lag during the hold, median, lines", statistics.median(s.lag for s in hold)],
        ["lag during the hold, largest, lines", max(s.lag for s in hold)],
        ["memory of the instance, GB", statistics.median(s.memory for s in hold) / 1e9],
        ["memory of the speed layer, GB", statistics.median(s.speed_memory for s in hold) / 1e9],
        ["freshness, 90th percentile, s", percentile(fresh, 90)],
        ["freshness, largest, s", max(fresh, default=float("nan"))],
    ]
    begin = hold[0].at
    curves = [
        Curve(
            f"Lag at {rate:,.0f} lines a second",
            "seconds",
            "lines",
            {"lag": [[s.at - begin for s in hold], [float(s.lag) for s in hold]]},
            log_x=False,
            log_y=False,
        )
    ]
    parts: list[list[Cell]] = [[part, cost, cost / total] for part, cost in found.costs.items()]
    tables = [
        Table("Figures", ["figure", "value"], rows),
        Table(
            "CPU time a line during the hold",
            ["part", "us a line", "share"],
            [*parts, ["together", total, 1.0], ["the pass, part of the workers", one_pass, one_pass / total]],
        ),
    ]
    return Outcome(NAME, what, bars, tables, curves, quick)


# The tasks


@contextmanager
def tasks_applied(settings: Settings) -> Iterator[int]:
    """Have the bench's tasks active in the speed layer; yields the number of all active tasks.

    The bench's tasks are deleted at the end.
    """
    store = TaskStore(engine(settings))
    specs = [spec.model_copy(update={"name": PREFIX + spec.name}) for spec in workload.tasks(TASKS - 1)]
    store.apply([*specs, probe_task()], "bench")
    wanted = {f"{task.task_id}v{task.version}" for task in store.active(TOPIC)}
    try:
        wait_for(settings, wanted)
        yield len(wanted)
    finally:
        for task in store.list(TOPIC):
            if task.name.startswith(PREFIX):
                store.delete(task.name, "bench")


def probe_task() -> TaskSpec:
    """A task that counts the probes, each in a series of its own."""
    return TaskSpec.model_validate(
        {
            "name": PREFIX + "probe",
            "topic": TOPIC,
            "period": "60s",
            "dimensions": [
                {
                    "name": "client",
                    "extract": {"delimiter": " ", "index": 0},
                    "filter": {"mode": "white", "regex": f"^{PROBE}"},
                }
            ],
            "metrics": ["count"],
        }
    )


def wait_for(settings: Settings, labels: set[str]) -> None:
    """Wait until the speed layer counts these task versions.

    A line now and then makes batches happen.
    """
    deadline = time.monotonic() + START_SECONDS
    writer = TrafficWriter(settings)
    while time.monotonic() < deadline:
        topic = jobs.speed_layer(settings).topics.get(TOPIC)
        if topic and labels <= set(topic.tasks):
            return
        writer.probe(f"{PROBE}start")
        time.sleep(2.0)
    raise TimeoutError(
        f"the speed layer of {settings.instance} does not count {sorted(labels)} after "
        f"{START_SECONDS:.0f} s; see `sluice status`"
    )


# The parts


def empty_batches(writer: TrafficWriter, watch: PlatformWatch, seconds: float) -> float:
    """The seconds that a batch of one line takes: the median over batches of their laps."""
    until, costs = time.monotonic() + seconds, {}
    while time.monotonic() < until:
        writer.probe(f"{PROBE}lone")
        time.sleep(2.0)
        seen = watch.look()
        costs[seen.seq] = seen.batch_ms / 1000
    return statistics.median(list(costs.values())[1:] or costs.values())


def overload(writer: TrafficWriter, watch: PlatformWatch, seconds: float) -> tuple[float, float]:
    """Lines counted a second under overload, and the seconds to catch up after its end.

    The rate is that of all written lines, until the last one is counted.
    """
    first = watch.look()
    writer.rate = OVERLOAD_RATE
    last = watch.during(seconds)[-1]
    drained(writer, watch)
    end = watch.seen[-1]
    throughput = (end.counted - first.counted) / (end.at - first.at)
    stack.say(f"{NAME}: {throughput:,.0f} lines/s under overload")
    return throughput, end.at - last.at


def drained(writer: TrafficWriter, watch: PlatformWatch) -> None:
    """Stop writing and wait until every line is counted."""
    writer.rate = 0.0
    if watch.until(lambda seen: seen.lag <= 0, DRAIN_SECONDS) is None:
        raise TimeoutError(f"{watch.seen[-1].lag:,} lines are not counted after {DRAIN_SECONDS:.0f} s")


def highest_rate(
    writer: TrafficWriter, watch: PlatformWatch, throughput: float, times: Times
) -> tuple[float, list[Seen], dict[str, float]]:
    """The highest rate tried that was held, what was seen while it was held, and CPU us a line by part."""
    rate, cpu = throughput * STEP, Cpu(watch.settings)
    while rate > throughput / 10:
        for seconds in (times.trial, times.hold):
            drained(writer, watch)
            writer.rate = rate
            watch.during(min(15.0, seconds / 3))  # until the first lines come through
            before = cpu.seconds()
            found = watch.during(seconds)
            lines = found[-1].counted - found[0].counted
            costs = {part: taken / lines * 1e6 for part, taken in between(before, cpu.seconds()).items()}
            growing = slope(found) / rate
            stack.say(f"{NAME}: {rate:,.0f} lines/s for {seconds:.0f} s: lag grows by {growing:.2%} of it")
            # A minute is too short to tell a slow growth from noise; the long hold is not.
            if growing > (GROWTH if seconds == times.hold else 5 * GROWTH):
                break
        else:
            return rate, found, costs
        rate *= STEP
    raise RuntimeError(f"no rate down to a tenth of {throughput:,.0f} lines/s was held: see `sluice status`")


def freshness(
    settings: Settings, writer: TrafficWriter, watch: PlatformWatch, rate: float, seconds: float
) -> list[float]:
    """Seconds from each probe's write until its result is readable."""
    spec = next(t for t in TaskStore(engine(settings)).active(TOPIC) if t.spec.name == PREFIX + "probe")
    period = parse_period(spec.spec.period) * 1000
    waiting: dict[bytes, float] = {}
    found: list[float] = []
    stop = threading.Event()

    def read() -> None:
        with HBase.of(settings) as store:
            while not stop.is_set():
                rows = list(waiting)
                there = store.get(RESULTS, rows, [ONLINE]) if rows else {}
                now = time.time()
                for row in there:
                    found.append(now - waiting.pop(row))
                time.sleep(0.05)

    reader = threading.Thread(target=read, name="reader", daemon=True)
    reader.start()
    writer.rate = rate
    try:
        until, number = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            name = f"{PROBE}{time.time_ns()}"
            begin, event_ms = writer.probe(name)
            start = event_ms // period * period
            key = RowKey(spec.task_id, spec.version, (("client", name),), "count", start)
            waiting[key.encode()] = begin
            number += 1
            if number % 10 == 0:
                watch.look()
            time.sleep(0.5)
        deadline = time.monotonic() + DRAIN_SECONDS
        while waiting and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        stop.set()
        reader.join()
    return found + [float("inf")] * len(waiting)  # never readable counts as infinitely late


# Arithmetic


def slope(seen: Sequence[Seen]) -> float:
    """Lines a second by which the lag grows: the slope of a straight line through all looks."""
    return float(np.polyfit([s.at for s in seen], [s.lag for s in seen], 1)[0])


def growth(seen: Sequence[Seen], of: str) -> float:
    """The median of the last third over the median of the second third."""
    third = max(1, len(seen) // 3)
    values = [getattr(s, of) for s in seen]
    before = statistics.median(values[third : 2 * third] or values)
    return statistics.median(values[-third:]) / before if before else float("nan")


def pass_cost(seen: Sequence[Seen]) -> float:
    """CPU microseconds a line that the pass took between the first look and the last."""
    lines = seen[-1].counted - seen[0].counted
    return (seen[-1].pass_us - seen[0].pass_us) / lines if lines else float("nan")


def percentile(values: Sequence[float], p: float) -> float:
    """The smallest value that p % do not exceed."""
    return float(np.percentile(values, p, method="higher")) if values else float("nan")
