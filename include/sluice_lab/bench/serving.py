"""Reading results: a day out of many, long curves for many clients, CSV, and a scrape of the metrics."""

from __future__ import annotations

import io
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa

from sluice.results import formats
from sluice.results.layers import StoredLayers
from sluice.results.query import Query, Where
from sluice.results.reader import ResultsAnswer, read
from sluice.runtime.days import DAY_MS
from sluice.runtime.settings import Settings
from sluice.stack.users import Users
from sluice_lab.bench import stack
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table
from sluice_lab.bench.served import FIRST, METRICS, Served

NAME = "serving"
#: A curve has 100 series of 10,000 points. A few more of both are stored, so that questions can differ.
SERIES, EXTRA, POINTS, MINUTE_MS = 100, 4, 10_000, 60_000
CURVE_DAYS = 7  # the last of them is open
CLIENTS = 20
#: Threads that answer: a server has a few, and the others wait in a queue.
THREADS = 4
COMMIT_SECONDS = 1.0
DAY_LIMIT, CURVE_LIMIT, CSV_LIMIT, CSV_MEMORY, SCRAPE_LIMIT = 1.2, 0.5, 200_000.0, 64.0, 0.25
DAY_SERIES = 100


@dataclass(frozen=True)
class ServingSize:
    """How much there is, and how often it is asked for."""

    days: int = 400
    day_rounds: int = 100
    rounds: int = 25  # of each client
    csv_rounds: int = 5
    scrapes: int = 100


QUICK = ServingSize(days=60, day_rounds=30, rounds=8, csv_rounds=2, scrapes=20)

WHAT = """\
Through PostgreSQL and HBase of instance `{instance}`. *A day*: {day:,} results of one day, by a task that has
{days} published days and by one that has that day alone; the two take turns {day_rounds} times, once with the
day's blocks kept in memory and once with blocks that are read from HBase. *Curves*: a task with {stored:,}
stored results of three metrics a point ({series} series by {points:,} minutes; the last of {curve_days} days
is open, the others are final). {clients} clients ask {rounds} times each, one question after the other, and
{threads} threads of one process answer them. An answer has at least 100 series of 10,000 points each, and is
counted once all its bytes are made, as an Arrow stream. The {clients} *different* questions differ in their
time, in their condition (values, a prefix, a pattern, none) and in their metrics; the *equal* ones are one of
these. They are asked of a platform at rest, and while a commit a second changes the newest period. *CSV*: all
stored points with three metrics. *Scrape*: `GET /sluice/metrics` of Airflow by a viewer with a password."""


def run(quick: bool = False) -> Outcome:
    size = QUICK if quick else ServingSize()
    with stack.running() as settings:
        paths = _paths(DAY_SERIES)
        with served(settings, paths, "1h") as many, served(settings, paths, "1h") as one:
            many.publish(range(size.days))
            one.publish([size.days // 2])
            days = a_day(settings, {"many": many, "one": one}, size)
        with served(settings, all_paths(), "1m") as curves:
            curves.publish(range(CURVE_DAYS - 1))
            curves.commit(curves.starts(CURVE_DAYS - 1))
            stack.say(f"{NAME}: curves are stored")
            mixes = all_mixes(curves, size.rounds)
            csv = as_csv(curves, size.csv_rounds)
        scrapes = scraped(settings, size.scrapes)
        instance = settings.instance
    minutes = CURVE_DAYS * DAY_MS // MINUTE_MS
    what = WHAT.format(
        instance=instance, day=24 * DAY_SERIES, days=size.days, day_rounds=size.day_rounds,
        stored=minutes * (SERIES + EXTRA), series=SERIES + EXTRA, points=minutes, curve_days=CURVE_DAYS,
        clients=CLIENTS, rounds=size.rounds, threads=THREADS,
    )  # fmt: skip
    return outcome(ServingFigures(days, mixes, csv, scrapes), what, quick)


@contextmanager
def served(settings: Settings, paths: Sequence[str], period: str) -> Iterator[Served]:
    """A task of the bench's own; it is deleted at the end."""
    made = Served(settings, paths, period)
    try:
        yield made
    finally:
        made.forget()


def _paths(number: int) -> list[str]:
    return [f"/articles/{n:03d}" for n in range(number)]


def all_paths() -> list[str]:
    """The series of the task with curves."""
    return _paths(SERIES) + [f"/other/{n}" for n in range(EXTRA)]


# What was found


@dataclass(frozen=True)
class Mix:
    """Questions of all clients: the seconds of each answer, and of all; CPU seconds of this process."""

    took: Sequence[float]
    elapsed: float
    cpu: float


@dataclass(frozen=True)
class Csv:
    """The rows, the seconds of each round, and by how much Arrow's memory grew at most (MiB)."""

    rows: int
    took: Sequence[float]
    grew: float


@dataclass(frozen=True)
class ServingFigures:
    """Everything that was measured; times are in seconds."""

    days: dict[str, dict[str, list[float]]]  # kept or read; many or one
    mixes: dict[str, Mix]
    csv: Csv
    scrapes: Sequence[float]


def outcome(found: ServingFigures, what: str, quick: bool) -> Outcome:
    medians = {how: {who: statistics.median(t) for who, t in own.items()} for how, own in found.days.items()}
    rate = found.csv.rows / statistics.median(found.csv.took)
    bars = [
        *(
            Bar(f"a day out of many over the same day alone, blocks {how}", own["many"] / own["one"],
                DAY_LIMIT, "most")
            for how, own in medians.items()
        ),
        *(
            Bar(f"100 series x 10,000 points, 20 clients, {name}, 95th percentile",
                p95(found.mixes[name].took), CURVE_LIMIT, "most", "s")
            for name in BARRED
        ),
        Bar("rows as CSV", rate, CSV_LIMIT, unit="rows/s"),
        Bar("memory that a stream of CSV adds", found.csv.grew, CSV_MEMORY, "most", "MiB"),
        Bar("scrape of /sluice/metrics, 95th percentile", p95(found.scrapes), SCRAPE_LIMIT, "most", "s"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [name, len(mix.took), 1000 * statistics.median(mix.took), 1000 * p95(mix.took),
         1000 * max(mix.took), 1000 * mix.cpu / len(mix.took), len(mix.took) / mix.elapsed]
        for name, mix in found.mixes.items()
    ]  # fmt: skip
    columns = ["questions", "answers", "median, ms", "95th percentile, ms", "largest, ms",
               "CPU an answer, ms", "answers a second"]  # fmt: skip
    days: list[list[Cell]] = [
        [f"a day, blocks {how}, {who}, median, ms", 1000 * seconds]
        for how, own in medians.items() for who, seconds in own.items()
    ]  # fmt: skip
    others: list[list[Cell]] = [
        *days,
        ["scrape, median, ms", 1000 * statistics.median(found.scrapes)],
        [f"{found.csv.rows:,} rows as CSV, s", statistics.median(found.csv.took)],
    ]  # fmt: skip
    tables = [Table("20 clients", columns, rows), Table("Others", ["figure", "value"], others)]
    return Outcome(NAME, what, bars, tables, quick=quick)


def p95(seconds: Sequence[float]) -> float:
    """The smallest value that 95 % do not exceed."""
    return float(np.percentile(seconds, 95, method="higher"))


# The parts


def a_day(
    settings: Settings, tasks: dict[str, Served], size: ServingSize
) -> dict[str, dict[str, list[float]]]:
    """Seconds to read the day that both tasks have, by where its blocks were and by task."""
    since = FIRST + size.days // 2 * DAY_MS
    kept, took = StoredLayers(settings), dict[str, dict[str, list[float]]]()
    other_day = Query(tasks=(tasks["many"].name,), since=FIRST, until=FIRST + DAY_MS)
    for how in ("kept", "read"):
        took[how] = {who: [] for who in tasks}
        for turn in range(-2, size.day_rounds):
            for who in sorted(tasks, reverse=turn % 2 == 1):
                layers = kept if how == "kept" else StoredLayers(settings)
                if layers is not kept:
                    ask(layers, other_day)  # opens its connection
                query = Query(tasks=(tasks[who].name,), since=since, until=since + DAY_MS)
                began = time.perf_counter()
                rows = ask(layers, query)
                if turn >= 0:  # the first rounds open connections
                    took[how][who].append(time.perf_counter() - began)
                if rows != 24 * DAY_SERIES:
                    raise AssertionError(f"{rows} rows of {24 * DAY_SERIES}")
    return took


def ask(layers: StoredLayers, query: Query) -> int:
    """Answer as a server does, up to the bytes that it sends; returns the number of rows."""
    (answer,) = read(layers, query)
    rows, sent = 0, io.BytesIO()
    with pa.ipc.new_stream(sent, answer.schema) as writer:
        for batch in answer.batches():
            writer.write_batch(batch)
            rows += batch.num_rows
            sent.seek(0)
            sent.truncate()  # it is with the client
    return rows


def questions(task: str) -> list[Query]:
    """As many different ones as there are clients; an answer has 100 series of 10,000 points or more."""
    paths, made = all_paths(), []
    for number in range(CLIENTS):
        left_out = {paths[(number * 5 + n) % len(paths)] for n in range(EXTRA)}
        conditions: list[tuple[Where, ...]] = [
            (Where(dimension="path", values=tuple(path for path in paths if path not in left_out)),),
            (Where(dimension="path", prefix="/articles/"),),
            (Where(dimension="path", pattern=r"^/articles/\d+$"),),
            (),
        ]
        since = FIRST + 4 * number * MINUTE_MS
        made.append(
            Query(
                tasks=(task,), since=since, until=since + POINTS * MINUTE_MS,
                where=conditions[number % len(conditions)],
                metrics=[*((name,) for name in METRICS), METRICS][number // 4 % 4],
            )
        )  # fmt: skip
    return made


#: The mixes that have to hold the limit.
BARRED = ("different questions", "different questions, a commit a second")


def all_mixes(curves: Served, rounds: int) -> dict[str, Mix]:
    """What 20 clients get, by what they ask and whether lines are counted meanwhile."""
    layers = StoredLayers(curves.settings)
    different = questions(curves.name)
    for query in different:
        if ask(layers, query) < SERIES * POINTS:
            raise AssertionError(f"{query} has fewer than {SERIES * POINTS} points")
    equal = [different[0]] * CLIENTS
    found = {}
    for suffix, beat in (("", None), (", a commit a second", lambda: curves.commit([newest(curves)]))):
        for kind, asked in (("different", different), ("equal", equal)):
            name = f"{kind} questions{suffix}"
            with repeating(beat):
                found[name] = mix(lambda query: ask(layers, query), asked, rounds)
            stack.say(f"{NAME}: {name}: {p95(found[name].took):.3f} s at the 95th percentile")
    return found


def newest(curves: Served) -> int:
    """The newest period that every question asks for."""
    return FIRST + (POINTS - 1) * MINUTE_MS


def mix(answer: Callable[[Query], int], asked: Sequence[Query], rounds: int) -> Mix:
    """One client for each question, which asks it again and again; a few threads answer."""
    took: list[float] = []
    with ThreadPoolExecutor(THREADS, "server") as server, ThreadPoolExecutor(len(asked), "client") as clients:

        def client(query: Query) -> None:
            for _ in range(rounds):
                began = time.perf_counter()
                server.submit(answer, query).result()
                took.append(time.perf_counter() - began)

        cpu, began = time.process_time(), time.perf_counter()
        for each in [clients.submit(client, query) for query in asked]:
            each.result()
        return Mix(took, time.perf_counter() - began, time.process_time() - cpu)


@contextmanager
def repeating(beat: Callable[[], None] | None) -> Iterator[None]:
    """Do something once a second meanwhile."""
    stop = threading.Event()

    def run() -> None:
        while beat is not None and not stop.wait(COMMIT_SECONDS):
            beat()

    with ThreadPoolExecutor(1) as other:
        done = other.submit(run)
        try:
            yield
        finally:
            stop.set()
            done.result()


def as_csv(curves: Served, rounds: int) -> Csv:
    """Stream all stored points as CSV."""
    layers = StoredLayers(curves.settings)
    took, rows, grew = [], 0, 0
    for turn in range(-1, rounds):  # the first round reads the blocks
        (answer,) = read(layers, Query(tasks=(curves.name,)))
        before, seen = pa.total_allocated_bytes(), Growth(answer)
        began = time.perf_counter()
        with Path("/dev/null").open("wb") as out:
            out.writelines(formats.csv(answer.schema, seen.batches()))
        if turn >= 0:
            took.append(time.perf_counter() - began)
            rows, grew = seen.rows, max(grew, seen.largest - before)
    return Csv(rows, took, grew / (1 << 20))


class Growth:
    """The batches of an answer, and what Arrow holds in memory while they are read."""

    def __init__(self, answer: ResultsAnswer) -> None:
        self._answer = answer
        self.rows = self.largest = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._answer.batches():
            self.rows += batch.num_rows
            yield batch
            self.largest = max(self.largest, pa.total_allocated_bytes())


def scraped(settings: Settings, number: int) -> list[float]:
    """Seconds of scrapes, one after the other."""
    users, name = Users(settings), "bench-prometheus"
    login = (name, users.add(name, "viewer"))
    took = []
    try:
        with httpx.Client(base_url=settings.airflow.url, timeout=60, trust_env=False, auth=login) as client:
            for turn in range(-2, number):  # the first ones check the password
                began = time.perf_counter()
                client.get("/sluice/metrics").raise_for_status()
                if turn >= 0:
                    took.append(time.perf_counter() - began)
    finally:
        users.remove(name)
    return took
