"""Grouping in Spark: every strategy, and a map of where each of them wins."""

from __future__ import annotations

from sluice_lab.bench import grouping_map, grouping_spark
from sluice_lab.bench.grouping_job import cluster
from sluice_lab.bench.outcome import Bar, Outcome, Table

NAME = "grouping"


def run(quick: bool = False) -> Outcome:
    bars: list[Bar] = []
    tables: list[Table] = []
    with cluster(grouping_spark.SLOTS) as session:
        for part in (grouping_spark.waiting, grouping_map.run):
            more_bars, more_tables = part(session, quick)
            bars += more_bars
            tables += more_tables
    more_bars, more_tables = grouping_spark.real(quick)
    what = "\n\n".join([grouping_spark.WHAT, grouping_map.WHAT])
    return Outcome(NAME, what, [*bars, *more_bars], [*tables, *more_tables], quick=quick)
