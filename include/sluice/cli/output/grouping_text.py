"""The speed layer's grouping as text, for `sluice grouping`, `sluice hotkeys` and the demo."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from typing import TYPE_CHECKING

from sluice.cli.output.format import plain, table

if TYPE_CHECKING:
    from sluice.speed.routed.report import DecisionReport, GroupingReport

#: How many workers' loads are written out.
_LOADS = 8


def asked(report: GroupingReport) -> str:
    """What the task, or its topic, asks for."""
    return report.asked if isinstance(report.asked, str) else json.dumps(report.asked)


def explained(report: GroupingReport) -> Iterator[tuple[str, str]]:
    """A task's decision and all figures, each with its title."""
    decision = report.decision
    yield "asked", asked(report)
    yield "grouped by", report.strategy + (f": {decision.reason}" if decision else "")
    if report.error is not None:
        yield "error", report.error
    if decision is not None and decision.figures is not None:
        yield from _measured(decision)
    yield from routed(report)
    if report.batch_at is not None:
        yield "as of", str(plain(report.batch_at.astimezone(UTC)))


def routed(report: GroupingReport) -> Iterator[tuple[str, str]]:
    """The next batch's plan, and how even the workers' load was; nothing for a combined task."""
    if report.plan is not None:
        plan = report.plan
        keys = f"{plan.listed} keys one by one, {plan.split} of them split among workers"
        yield "plan", f"{keys}; all others into {plan.buckets:,} buckets; for {plan.expected:,.0f} tuples"
    if report.imbalance is None:
        return
    found = report.imbalance
    worst = f"{found.hour:.2%} over the last hour, {found.worst:.2%} at worst"
    yield "imbalance", f"{found.last:.2%} in the last batch, {worst}"
    total = sum(each.tuples * each.time for each in report.load) or 1.0
    busiest = sorted(report.load, key=lambda each: -each.tuples * each.time)
    shown = [f"{each.worker}: {each.tuples * each.time / total:.1%}" for each in busiest[:_LOADS]]
    more = len(busiest) - len(shown)
    yield "load", ", ".join(shown) + (f" and {more} more workers" if more else "")


def hot_keys(reports: Sequence[GroupingReport], most: int | None = None) -> str:
    """Each task's hottest keys, at most `most`, as a table.

    Below the table are the plans and loads of the tasks that have workers.
    """
    rows = [
        (
            report.task,
            report.strategy,
            hot.key[0] if len(hot.key) == 1 else list(hot.key),
            f"{hot.share:.2%}",
            f"{hot.error:.2%}",
            ",".join(map(str, hot.workers)) or None,
        )
        for report in reports
        for hot in report.hot[:most]
    ]
    lines = [f"{report.task}: {title} {text}\n" for report in reports for title, text in routed(report)]
    return table(("task", "grouping", "key", "share", "error", "workers"), rows) + "".join(lines)


def decisions(reports: Iterable[GroupingReport]) -> str:
    """A line for each task: what it is grouped by, and the figures that `auto` goes by."""
    columns = ("task", "asked", "grouping", "tuples", "series", "us_a_tuple", "hottest", "combine_ms")
    rows = [(*_figures(report),) for report in reports]
    return table((*columns, "key_ms", "planned_ms"), rows)


def _figures(report: GroupingReport) -> Iterator[str | int | float | None]:
    yield from (report.task, asked(report), report.strategy)
    decision = report.decision
    figures = decision.figures if decision is not None else None
    if decision is None or figures is None:  # it named a strategy, or no batch was large enough to judge by
        yield from [None] * 7
        return
    yield from (figures.tuples, figures.groups, round(figures.cost * 1e6, 2), f"{figures.top:.1%}")
    yield from (round(decision.estimates[name] * 1e3, 1) for name in ("combine", "key", "planned"))


def _measured(decision: DecisionReport) -> Iterator[tuple[str, str]]:
    estimates = sorted(decision.estimates.items(), key=lambda each: each[1])
    yield "a batch", ", ".join(f"{name} {seconds:.3g} s" for name, seconds in estimates) + " (estimated)"
    figures = decision.figures
    if figures is None:
        return
    distinct = figures.groups / max(1, figures.tuples)
    yield "tuples", f"{figures.tuples:,} in {figures.groups:,} series ({distinct:.2%} distinct)"
    yield "combined", f"{figures.rows:,.0f} partial aggregates of {figures.state:,.0f} bytes"
    yield "cost", f"{figures.cost * 1e6:.3g} us a tuple"
    yield "skew", f"{figures.top:.2%} for the hottest key, {figures.widest:.0%} for the largest source"
