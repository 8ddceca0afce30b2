"""The dashboard that the demo makes: what the example tasks count, one chart beside the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings

NAME = "Demo"
#: Titles, and addresses of charts as the console writes them. Most show all of the log, which is short.
CHARTS = (
    ("All lines", "task=traffic&metric=count&compare=before"),
    ("Answers by status", "task=hits_by_status&metric=count&split=status&last=all&period=1h&shape=stack"),
    ("Bytes by section", "task=bytes_per_section&metric=sum&split=section&last=all&period=1h&shape=bars"),
    ("Sizes of answers, by class", "task=sizes_per_class&metric=p50&metric=p95&split=class&last=all"),
    ("Clients by method", "task=clients_per_method&metric=unique&split=method&last=all"),
    ("Errors by client", "task=failures_per_client&metric=count&split=client&top=3&last=all&shape=stack"),
    ("Pages of a day", "task=pages_per_day&metric=count&split=page&top=4&last=all&shape=bars"),
    ("Slow tail of GET", "task=hits_per_hour&metric=p95&split=status&top=3&last=all"),
)


def make_dashboard(settings: Settings) -> None:
    """Make the dashboard once, for the demo's user, who may change it; everybody who may read sees it."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables.dashboards import Dashboards, PinnedChart

    boards, user = Dashboards(engine(settings)), settings.airflow.user
    if not any(each.name == NAME for each in boards.of(user)):
        boards.create(user, NAME, [PinnedChart(*each) for each in CHARTS], shared=True)
