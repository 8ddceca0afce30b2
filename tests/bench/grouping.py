"""Grouping: balance, replicas and cost of the strategies by themselves, then all of them at work in Spark."""

from __future__ import annotations

from tests.bench import grouping_bars, grouping_map, grouping_spark
from tests.bench.grouping_contenders import rules
from tests.bench.grouping_job import cluster
from tests.bench.outcome import Outcome

NAME = "grouping"

WHAT = """\
Bars without Spark are of batches of {tuples:,} tuples whose plan was made from the batch before: EDU and ISP
are the fits of the published data sets, `planned` stands without its correction for chance and `planned with
correction` is the default."""


def run(quick: bool = False) -> Outcome:
    bars, tables = grouping_bars.bars(quick), []
    with cluster(grouping_spark.SLOTS, list(rules().values())) as session:
        for part in (grouping_spark.waiting, grouping_map.run):
            more_bars, more_tables = part(session, quick)
            bars += more_bars
            tables += more_tables
    more_bars, more_tables = grouping_spark.real(quick)
    tuples = grouping_bars.QUICK_TUPLES if quick else grouping_bars.TUPLES
    what = "\n\n".join([WHAT.format(tuples=tuples), grouping_spark.WHAT, grouping_map.WHAT])
    return Outcome(NAME, what, [*bars, *more_bars], [*tables, *more_tables], quick=quick)
