"""N different tasks over one stream of lines: the engine against Flink SQL, each in its best form."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import psutil

from sluice_lab.bench import contenders, flink_sql, spark, workload
from sluice_lab.bench.outcome import Bar, Cell, Curve, Outcome, Table
from sluice_lab.bench.timing import Times, median, ratio

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NAME = "flink"
LINES, QUICK_LINES, CHECKED_LINES = 2_000_000, 200_000, 40_000
SECONDS = 600
CHECKED_AT = 16
ENGINE = "sluice"
ROUNDS = {1: 7, 16: 3, 64: 3}
#: With more, Flink takes longer to plan a set of statements than to run the other form.
MOST_STATEMENTS = 16
#: At how many tasks the engine has to be how many times as fast as Flink's best form.
LIMITS = {1: 1.0, 64: 8.0}

WHAT = """\
The tasks and the {lines:,} lines of the bench `tasks`, from the same Parquet files. `sluice` is the engine
inside Spark `local[2]`, as there: its tasks read the files as the nightly run's do. Flink SQL 2.3 runs in
one JVM with a cluster of two slots that stands between jobs; its results are thrown away by its
`blackhole`. In the form `explode` a function in Java cuts
a line once, in the bytes of Flink's own column, and makes a row for each task that the line passes; one
GROUP BY follows. In `statements` each task is a statement of one set; all read the same view, whose function
cuts a line once and parses times and measures. Each form runs as a batch and as a stream (mini-batch, two
phases). Objects are used again, and a time stamp that repeats is read once. All four forms were shown to
give the engine's results at N = {checked}; `statements` is left out beyond {most} tasks. At each N every
form ran alone after a warm-up; the fastest then took turns with the engine. Flink's seconds leave out the
planning of a job, the engine's include it."""

#: Does the work; returns the seconds that it took.
Way = Callable[[], float]


@dataclass(frozen=True)
class FormTimes:
    """Seconds at one number of tasks."""

    alone: Mapping[str, float]  # of Flink's forms, each by itself
    times: Times  # of the engine and of Flink's best form, in turn
    spent: Times  # the same rounds in seconds of processor time

    @property
    def best(self) -> str:
        """Flink's best form."""
        return min(self.alone, key=self.alone.__getitem__)


def run(quick: bool = False) -> Outcome:
    results = _check()
    lines = QUICK_LINES if quick else LINES
    log = workload.log(lines, SECONDS)
    measured: dict[int, FormTimes] = {}
    with spark.session("bench flink", config=spark.WORKERS) as session, flink_sql.rival(log) as rival:
        for number, rounds in ROUNDS.items():
            ways = _ways(session, log, rival, number)
            for name in ways if number == 1 else ():
                ways[name]()  # compiles what all numbers need
            alone = {form: ways[form]() for form in ways if form != ENGINE}
            best = min(alone, key=alone.__getitem__)
            turns = {ENGINE: ways[ENGINE], best: ways[best]}
            measured[number] = FormTimes(
                alone, *_in_turn(turns, 1 if quick else rounds, f"{NAME} N={number}")
            )
    return outcome(measured, lines, results, quick)


def _ways(session: SparkSession, log: Path, rival: flink_sql.Rival, number: int) -> dict[str, Way]:
    specs = workload.tasks(number)

    def engine() -> float:
        begin = time.perf_counter()
        contenders.engine_rows(contenders.engine(session, log, specs))
        return time.perf_counter() - begin

    def flink(form: str) -> float:
        begin = time.perf_counter()
        planning = rival.run(form, specs)
        seconds = time.perf_counter() - begin - planning
        sys.stderr.write(f"  {NAME} N={number} {form}: {seconds:.2f} s\n")
        return seconds

    forms = [form for form in flink_sql.FORMS if number <= MOST_STATEMENTS or form.startswith("explode")]
    return {ENGINE: engine, **{form: partial(flink, form) for form in forms}}


def _in_turn(ways: Mapping[str, Way], rounds: int, label: str) -> tuple[Times, Times]:
    """Seconds of each way in each round, and seconds of processor time of all processes."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            gc.collect()
            before = _processors()
            times[name].append(ways[name]())
            spent[name].append(_processors() - before)
            sys.stderr.write(f"  {label} {name}: {times[name][-1]:.2f} s, {spent[name][-1]:.2f} s of cores\n")
    return times, spent


def _processors() -> float:
    """Processor seconds of this process and of all that it started."""
    me = psutil.Process()
    used = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(t.user + t.system + t.children_user + t.children_system for t in used)


def _check() -> int:
    """Check that all forms give the engine's results, since else nothing is timed; returns how many."""
    specs, log = workload.tasks(CHECKED_AT), workload.log(CHECKED_LINES, SECONDS)
    with spark.session("bench flink", config=spark.WORKERS) as session, flink_sql.rival(log) as rival:
        wanted = contenders.engine_rows(contenders.engine(session, log, specs))
        for form in flink_sql.FORMS:
            contenders.check_equal(form, wanted, rival.rows(form, specs))
    return int(wanted.num_rows)


def outcome(measured: Mapping[int, FormTimes], lines: int, results: int, quick: bool) -> Outcome:
    """Make the bars from the seconds of the engine and of Flink's best form at each number of tasks."""
    bars = [
        Bar(f"{_tasks(n)}: times as fast as Flink's best form", _speedup(measured[n]), limit)
        for n, limit in sorted(LIMITS.items(), reverse=True)
    ]
    names = (ENGINE, *flink_sql.FORMS)
    rates = {n: _rates(each, lines) for n, each in measured.items()}
    rows: list[list[Cell]] = []
    for n, each in measured.items():
        cores = [median(each.spent, name) / lines * 1e6 for name in (ENGINE, each.best)]
        rows.append([str(n), *(rates[n].get(name) for name in names), _speedup(each), *cores])
    columns = ["tasks", *names, "times Flink's best", "sluice, us of a core a line", "Flink's best, the same"]
    lines_by_name = {
        name: [[float(n) for n in rates if name in rates[n]], [r[name] for r in rates.values() if name in r]]
        for name in names
    }
    curve = Curve("N different tasks over one stream", "tasks", "thousand lines a second", lines_by_name)
    what = WHAT.format(
        lines=lines,
        checked=f"{CHECKED_AT} ({results:,} results of {CHECKED_LINES:,} lines)",
        most=MOST_STATEMENTS,
    )
    return Outcome(NAME, what, bars, [Table("Thousand lines a second", columns, rows)], [curve], quick)


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number} tasks"


def _speedup(measured: FormTimes) -> float:
    return ratio(measured.times, measured.best, ENGINE)


def _rates(measured: FormTimes, lines: int) -> dict[str, float]:
    """Thousand lines a second; of forms that took turns, the median."""
    seconds = {**measured.alone, **{name: median(measured.times, name) for name in measured.times}}
    return {name: lines / each / 1000 for name, each in seconds.items()}
