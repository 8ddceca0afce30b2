"""The bars of grouping without Spark.

They are about balance, replicas, a hot key that moves, unequal workers, and the cost of a tuple. Each figure
is for a batch whose plan was made from the batch before. Two settings are measured: `PLANNED` corrects
nothing that chance explains, `CORRECTED` is the default. Times are the thread's own, so other load on the
machine does not count.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from sluice.grouping import strategy
from sluice.grouping.base import Counts, Strategy, Targets, WorkerCluster
from sluice.grouping.imbalance import imbalance, loads, makespan, replicas
from sluice.grouping.planned import Planned, PlannedRouter
from sluice.runtime.arrays import Hashes
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table
from sluice_lab.drift import Drift
from sluice_lab.streams import Stream, edu_stream, isp_stream, zipf_stream

NAME = "grouping_bars"
TUPLES, QUICK_TUPLES = 2_000_000, 200_000
ROUNDS = 3
PLANNED, CORRECTED = Planned(tolerance=3, patience=0), Planned()
MANY, FEW = 1000, 64


@dataclass(frozen=True)
class BalanceLimits:
    """max / mean - 1 and replicas, first of the plan alone, then with the correction."""

    workers: int
    plan: tuple[float, float]
    corrected: tuple[float, float]


LIMITS = (BalanceLimits(FEW, (0.03, 1.01), (0.005, 1.05)), BalanceLimits(MANY, (0.10, 1.05), (0.02, 1.05)))
MOVED = 1 / 3  # of KG2's and TAG's imbalance in the batch where the hot key moves
MAKESPAN = 1.03  # of the optimum
LOOK_UP, LOOP = 50.0, 150.0  # ns a tuple, for planned and for rules that choose at each tuple
CHOOSING = ("pkg", "kg2", "tag", "d-choices", "w-choices")

WHAT = """\
Batches of {tuples:,} tuples whose plan was made from the batch before, one source. EDU and ISP are the fits
of the published data sets, `planned` stands without its correction for chance and `planned with correction`
is the default. The table has what no correction can do without, even one that knew the batch beforehand
(`least_replicas` in include/sluice_lab/bench/grouping_bars.py)."""


def run(quick: bool = False) -> Outcome:
    """Measure all bars.

    quick: use a tenth of the tuples, for tests of the bench; then chance alone exceeds some limits.
    """
    tuples = QUICK_TUPLES if quick else TUPLES
    even, table = balance(tuples)
    bars = [*even, *moves(tuples), *unequal(tuples), *cost(tuples, 1 if quick else ROUNDS)]
    return Outcome(NAME, WHAT.format(tuples=tuples), bars, [table], quick=quick)


def streams() -> Mapping[str, Stream]:
    return {"EDU": edu_stream(), "ISP": isp_stream(), "Zipf 1.4, 1 M keys": zipf_stream(1.4, 1_000_000)}


def planned(rule: Planned, cluster: WorkerCluster, before: Counts) -> PlannedRouter:
    """A single source's router with a plan that was made from the batch `before`."""
    router = rule.router(cluster)
    rule.boundary([router], cluster, before)
    return router


def least_replicas(router: PlannedRouter, keys: Hashes, targets: Targets, most: float) -> float:
    """Replicas a key that any correction of a plan needs, even one that knew the batch before.

    `targets` is where the plan alone sends the batch. Workers that share a split key can even out their loads
    at no further cost. A group of such workers with more than 1 + `most` times its share has to send a key to
    another group, and that is a replica.

    EDU at 1,000 workers needs 1.040 for the keys that outgrow a worker; no plan can avoid 1.0399. In
    addition, 2,000 tuples a worker vary by sqrt(2 / 2000) = 3.2 %, so some 120 groups of 543 are over by 2 %.
    That makes 1.0507 in all, more than the limit. If a plan loaded small groups less, as best suits these
    odds, 87 groups would be over: 1.048. A rule that does not know the batch beforehand moves more than half
    as many keys again: 1.067, or 1.058 if it tolerates as much imbalance as the limit allows.
    """
    made = router.plan
    split = np.repeat(np.arange(len(made.keys)), np.diff(made.first)) + made.workers
    links = coo_matrix((np.ones(len(split)), (made.parts, split)), shape=(made.workers + len(made.keys),) * 2)
    groups = connected_components(links, directed=False)[1][: made.workers]
    have = np.bincount(groups, np.bincount(targets, minlength=made.workers))
    share = np.bincount(groups, made.shares) * len(keys)
    return replicas(keys, targets) + np.count_nonzero(have > share * (1 + most)) / len(np.unique(keys))


def balance(tuples: int) -> tuple[list[Bar], Table]:
    found: list[Bar] = []
    rows: list[list[Cell]] = []
    for name, stream in streams().items():
        before, keys = Counts.of(stream.batch(0, tuples)), stream.batch(1, tuples)
        for limits in LIMITS:
            cluster, held = WorkerCluster.alike(limits.workers), []
            for what, rule, (most, replicated) in (
                ("planned", PLANNED, limits.plan),
                ("planned with correction", CORRECTED, limits.corrected),
            ):
                router = planned(rule, cluster, before)
                targets = router.route(keys)
                held.append(replicas(keys, targets))
                if rule is PLANNED:
                    least = least_replicas(router, keys, targets, limits.corrected[0])
                where = f"{name}, {limits.workers} workers, {what}"
                worst = imbalance(loads(targets, cluster)).relative
                found += [
                    Bar(f"{where}: max / mean - 1", worst, most, "most", ""),
                    Bar(f"{where}: replicas a key", held[-1], replicated, "most", ""),
                ]
            more = [(figure - 1) * 100 for figure in (held[0], least, held[1], limits.corrected[1])]
            rows.append([name, limits.workers, *more])
    columns = ["stream", "workers", "planned", "at least, to correct it", "with correction", "limit"]
    return found, Table("Replicas beyond one a key, %", columns, rows)


def moves(tuples: int) -> list[Bar]:
    """Bars for EDU when its most frequent key changes in the middle of the second batch."""
    stream, cluster = Drift(edu_stream(), "move", at=1.5), WorkerCluster.alike(FEW)
    batches = [stream.batch(number, tuples) for number in range(3)]
    found = {name: _over_batches(strategy(name), cluster, batches) for name in ("planned", "kg2", "tag")}
    return [
        *(
            Bar(
                f"the hot key moves: imbalance over {other}'s in that batch",
                found["planned"][1] / found[other][1],
                MOVED,
                "most",
            )
            for other in ("kg2", "tag")
        ),
        Bar(
            "the hot key moved: imbalance of the next batch",
            found["planned"][2],
            LIMITS[0].plan[0],
            "most",
            "",
        ),
    ]


def _over_batches(rule: Strategy, cluster: WorkerCluster, batches: list[Hashes]) -> list[float]:
    """max / mean - 1 of each batch."""
    router = rule.router(cluster)
    found = []
    for keys in batches:
        found.append(imbalance(loads(router.route(keys), cluster)).relative)
        rule.boundary([router], cluster, Counts.of(keys))
    return found


def unequal(tuples: int) -> list[Bar]:
    """Bars for workers with t_i spread evenly over 1 .. 4."""
    cluster = WorkerCluster(tuple(np.linspace(1, 4, FEW).tolist()))
    found = []
    for name, stream in streams().items():
        before, keys = Counts.of(stream.batch(0, tuples)), stream.batch(1, tuples)
        figure = makespan(planned(CORRECTED, cluster, before).route(keys), cluster)
        found.append(Bar(f"{name}, times 1 to 4: makespan over the optimum", figure, MAKESPAN, "most"))
    return found


def cost(tuples: int, rounds: int) -> list[Bar]:
    """Bars for the cost of EDU at 64 workers: the fastest round after one that compiles."""
    stream, cluster = edu_stream(), WorkerCluster.alike(FEW)
    before, keys = Counts.of(stream.batch(0, tuples)), stream.batch(1, tuples)
    found = []
    for name in ("planned", *CHOOSING):
        rule, times = strategy(name), []
        for _ in range(rounds + 1):
            router = rule.router(cluster)
            rule.boundary([router], cluster, before)
            begin = time.thread_time()
            router.route(keys)
            times.append(time.thread_time() - begin)
        limit = LOOK_UP if name == "planned" else LOOP
        found.append(Bar(f"routing: {name}", min(times[1:]) / len(keys) * 1e9, limit, "most", "ns a tuple"))
    return found
