"""Every strategy in Spark: on 32 waiting slots, equal or unequal, and on one slot per core."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.grouping import strategy
from sluice.grouping.base import Strategy, WorkerCluster
from sluice_lab.bench.grouping_contenders import ContenderSetting, compare, rules
from sluice_lab.bench.grouping_job import cluster
from sluice_lab.bench.grouping_measures import Measured, Ran, middle, seconds
from sluice_lab.bench.grouping_stages import HashWork, Service, Wait
from sluice_lab.bench.grouping_states import COUNTERS
from sluice_lab.bench.outcome import FOLDER, Bar, Cell, Table
from sluice_lab.bench.spark import CORES
from sluice_lab.bench.timing import median, ratio
from sluice_lab.clusters import equal, spread
from sluice_lab.streams import edu_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOTS, SOURCES = 32, 8
SERVICE = 50e-6
ROUNDS = 5
#: For two strategies in turn: where a few per cent decide, medians of a few rounds are noise.
DUEL_ROUNDS = 31
QUICK = 10  # a quick run has a tenth of the tuples
OVER_KEY, OVER_SHUFFLE, STATE = 1.4, 0.95, 1.05


@dataclass(frozen=True)
class ComparedSetting:
    """One setting's name and sizes.

    Half a million tuples of 50 us are 0.8 s for each of 32 workers.
    """

    title: str
    cluster: WorkerCluster
    sources: int
    service: Service
    tuples: int

    def quick(self) -> ComparedSetting:
        return replace(self, tuples=self.tuples // QUICK)


ALIKE = ComparedSetting(f"{SLOTS} slots alike", equal(SLOTS), SOURCES, Wait(SERVICE), 800_000)
UNEQUAL = ComparedSetting(f"{SLOTS} slots, times 1 to 4", spread(SLOTS), SOURCES, Wait(SERVICE), 400_000)
REAL = ComparedSetting(f"{CORES} slots, real work", equal(CORES), CORES, HashWork(2), 500_000)

WHAT = f"""\
Spark, one job a batch: sources route EDU's tuples, `repartitionById` takes them to workers, workers serve
and aggregate them by key, the driver merges. A batch lasts until its states are merged and the strategy has
looked back on it. On `local[{SLOTS}]` a tuple's service is a wait of {SERVICE * 1e6:.0f} us (times t_i),
which takes no core, and {SOURCES} sources are the partitions of a topic; on `local[{CORES}]` it is some 2 us
of Python. `combine` serves and aggregates where the sources are, and has no second stage; `salted` is key
grouping of keys with a number from 0 to 7 attached. (As many sources as workers, each with a part of all
keys, would be `shuffle`.) All were shown to give the same states. On `local[{CORES}]` planned and shuffle
are measured again, {DUEL_ROUNDS} times in turn, for the bar."""


def run(
    session: SparkSession, wanted: ComparedSetting, rounds: int, chosen: Mapping[str, Strategy] | None = None
) -> dict[str, list[Ran]]:
    """Compare all strategies, or the chosen ones, on one setting."""
    with slices() as folder:
        setting = ContenderSetting(
            edu_stream(),
            wanted.tuples,
            wanted.cluster,
            wanted.sources,
            wanted.service,
            COUNTERS,
            Path(folder),
        )
        return compare(session, chosen or rules(), setting, rounds, wanted.title)


def slices() -> tempfile.TemporaryDirectory[str]:
    """A folder for the slices of one setting's batches."""
    parent = FOLDER / "spark"
    parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="slices-", dir=parent)


def real(quick: bool) -> tuple[list[Bar], list[Table]]:
    """The comparison with real work, in a session of its own."""
    wanted = REAL.quick() if quick else REAL
    with cluster(CORES) as session:
        measured = run(session, wanted, 1 if quick else ROUNDS)
        pair = {name: strategy(name) for name in ("shuffle", "planned")}
        duel = run(session, wanted, 1 if quick else DUEL_ROUNDS, pair)
    return real_bars(duel), [table(wanted, measured)]


def waiting(session: SparkSession, quick: bool) -> tuple[list[Bar], list[Table]]:
    """The comparisons on slots that wait."""
    rounds = 1 if quick else ROUNDS
    alike, unequal = (w.quick() if quick else w for w in (ALIKE, UNEQUAL))
    measured, apart = run(session, alike, rounds), run(session, unequal, rounds)
    return waiting_bars(measured), [table(alike, measured), table(unequal, apart)]


def waiting_bars(measured: Measured) -> list[Bar]:
    """The bars of planned against key and shuffle, on equal slots."""
    times, where = seconds(measured), f"Spark, {ALIKE.title}, planned"
    held = {name: [float(ran.state) for ran in measured[name]] for name in ("planned", "key")}
    return [
        Bar(f"{where}: throughput over key's", ratio(times, "key", "planned"), OVER_KEY),
        Bar(f"{where}: throughput over shuffle's", ratio(times, "shuffle", "planned"), OVER_SHUFFLE),
        Bar(f"{where}: state over key's", ratio(held, "planned", "key"), STATE, "most"),
    ]


def real_bars(measured: Measured) -> list[Bar]:
    """The bar of planned against shuffle.

    Against key there is little to win on two slots: at most its imbalance.
    """
    figure = ratio(seconds(measured), "shuffle", "planned")
    return [Bar(f"Spark, {REAL.title}, planned: throughput over shuffle's", figure, OVER_SHUFFLE)]


COLUMNS = (
    "strategy", "k tuples/s", "batch, s", "busy from first to last, s", "max / mean - 1", "MB shuffled",
    "partial rows", "state, MB", "largest worker's, MB", "a source's, KB", "merge, ms", "boundary, ms",
    "p50, s", "p99, s",
)  # fmt: skip


def table(wanted: ComparedSetting, measured: Measured) -> Table:
    """Medians of the rounds; the title has the optimum without any overhead, if slots wait."""
    times = seconds(measured)
    rows: list[list[Cell]] = [
        [
            name,
            wanted.tuples / median(times, name) / 1e3,
            median(times, name),
            middle(runs, "span"),
            middle(runs, "uneven"),
            middle(runs, "sent") / 1e6,
            middle(runs, "partials"),
            middle(runs, "state") / 1e6,
            middle(runs, "most") / 1e6,
            middle(runs, "source") / 1e3,
            middle(runs, "merging") * 1e3,
            middle(runs, "boundary") * 1e3,
            middle(runs, "p50"),
            middle(runs, "p99"),
        ]
        for name, runs in measured.items()
    ]
    title = f"Spark, {wanted.title}, {wanted.tuples:,} tuples"
    if isinstance(wanted.service, Wait):
        rates = sum(1 / t for t in wanted.cluster.times)
        title += f", at best {wanted.tuples * wanted.service.seconds / rates:.2f} s of waiting"
    return Table(title, COLUMNS, rows)
