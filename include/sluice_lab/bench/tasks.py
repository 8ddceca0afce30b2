"""N different tasks over one stream of lines: the engine against Spark SQL."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sluice_lab.bench import contenders, spark, workload
from sluice_lab.bench.outcome import Bar, Curve, Outcome, Table
from sluice_lab.bench.timing import Times, better, interleaved, median, ratio

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NAME = "tasks"
LINES, QUICK_LINES = 2_000_000, 200_000
SECONDS = 600
NUMBERS = (1, 4, 16, 64, 256)
MOST_FOR_BASELINES = 64  # with more, Spark SQL takes minutes a run and needs more memory than there is
CHECKED_AT = 16
ROUNDS = {1: 7, 4: 5, 16: 3, 64: 2, 256: 3}
#: With more tasks, the slower of the other ways runs once: it takes minutes.
MOST_TURNS = 4
ENGINE, EXPLODE, UNION = "sluice", "explode", "union"
#: What the platform has to reach: at 64 tasks this many times the better of both, at one task nearly as fast.
MANY, MANY_LIMIT, ONE_LIMIT = 64, 10.0, 0.85
# "Flat": the cost of another task may grow by noise but not by more.
FLAT = 1.15

WHAT = """\
N tasks over one stream of {lines:,} lines (150 bytes, Parquet files), Spark `local[2]`. No two
tasks have the same dimension set or the same filter; measures and periods rotate. All compute
count, sum, average, minimum, maximum and the number of missing measures. `sluice` is the engine as
the nightly run calls it: Spark's tasks read the files in their Python workers and make partial
aggregates, which the driver merges. `explode` cuts each line once, makes a row for each task that
it passes, and groups once; `union` has one groupBy a task. All three were shown to give the same
results at N = {checked}. Beyond {turns} tasks only the faster of the two takes part in all rounds."""


def run(quick: bool = False) -> Outcome:
    lines = QUICK_LINES if quick else LINES
    log = workload.log(lines, SECONDS)
    with spark.session("bench tasks", config=spark.WORKERS) as session:
        results = _check(session, log)
        measured = {
            number: interleaved(
                _ways(session, log, number),
                rounds=2 if quick else ROUNDS[number],
                label=f"{NAME} N={number}",
                warm=2 if number == NUMBERS[0] else 1 if number <= CHECKED_AT else 0,
                rivals=(EXPLODE, UNION) if MOST_TURNS < number <= MOST_FOR_BASELINES else (),
            )
            for number in NUMBERS
        }
    return outcome(measured, lines, results, quick)


def _ways(session: SparkSession, log: Path, number: int) -> dict[str, Callable[[], object]]:
    frame, specs = spark.read(session, log), workload.tasks(number)
    ways: dict[str, Callable[[], object]] = {
        ENGINE: lambda: contenders.engine_rows(contenders.engine(session, log, specs))
    }
    if number <= MOST_FOR_BASELINES:
        ways[EXPLODE] = lambda: spark.consume(contenders.explode(frame, specs))
        ways[UNION] = lambda: spark.consume(contenders.union(frame, specs))
    return ways


def _check(session: SparkSession, log: Path) -> int:
    """Check that all ways give the same, since else nothing is timed; returns how many results."""
    frame, specs = spark.read(session, log), workload.tasks(CHECKED_AT)
    wanted = contenders.engine_rows(contenders.engine(session, log, specs))
    for name, way in ((EXPLODE, contenders.explode), (UNION, contenders.union)):
        contenders.check_equal(name, wanted, way(frame, specs).toArrow())
    return int(wanted.num_rows)


def outcome(measured: Mapping[int, Times], lines: int, results: int, quick: bool) -> Outcome:
    """Make the bars from the seconds of each way at each number of tasks."""
    better = {n: _better(times) for n, times in measured.items() if n <= MOST_FOR_BASELINES}
    added = _added(measured, lines)
    bars = [
        Bar(
            f"{MANY} tasks: times as fast as the better of explode and union",
            _speedup(measured[MANY]),
            MANY_LIMIT,
        ),
        Bar("1 task: times as fast as the better of explode and union", _speedup(measured[1]), ONE_LIMIT),
        *(
            Bar(
                f"cost per added task, {to} tasks against {at}",
                added[to] / added[at],
                FLAT,
                "most",
            )
            for at, to in ((4, 64), (64, 256))
        ),
    ]
    names = (ENGINE, EXPLODE, UNION)
    rates = {
        name: {n: lines / median(t, name) / 1000 for n, t in measured.items() if name in t} for name in names
    }
    table = Table(
        "Thousand lines a second",
        ["tasks", *names, "times the better", "us a line and added task"],
        [
            [
                str(n),
                *(rates[name].get(n) for name in names),
                _speedup(times) if n in better else None,
                added.get(n),
            ]
            for n, times in measured.items()
        ],
    )
    curve = Curve(
        "N different tasks over one stream",
        "tasks",
        "thousand lines a second",
        {name: [[float(n) for n in rates[name]], list(rates[name].values())] for name in names},
    )
    what = WHAT.format(lines=lines, checked=f"{CHECKED_AT} ({results:,} results)", turns=MOST_TURNS)
    return Outcome(NAME, what, bars, [table], [curve], quick)


def _better(times: Times) -> str:
    return better(times, (EXPLODE, UNION))


def _speedup(times: Times) -> float:
    return ratio(times, _better(times), ENGINE)


def _added(measured: Mapping[int, Times], lines: int) -> dict[int, float]:
    """Microseconds a line that one more task costs, from each number of tasks to the next."""
    numbers = sorted(measured)
    return {
        n: (median(measured[n], ENGINE) - median(measured[m], ENGINE)) / (n - m) / lines * 1e6
        for m, n in itertools.pairwise(numbers)
    }
