"""The console's pages, as its navigation lists them."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A page of the navigation; `path` is below the console's own."""

    key: str
    title: str
    path: str


NAVIGATION = (
    Entry("first", "First page", "/"),
    Entry("statistics", "Statistics", "/statistics"),
    Entry("charts", "Charts", "/charts"),
    Entry("dashboards", "Dashboards", "/dashboards"),
    Entry("platform", "Platform", "/platform"),
    Entry("quality", "Quality", "/quality"),
    Entry("dead", "Dead letters", "/dead"),
    Entry("history", "History", "/history"),
)
