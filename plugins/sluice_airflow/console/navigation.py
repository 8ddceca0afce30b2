"""The console's pages, as its navigation lists them."""

from __future__ import annotations

from typing import NamedTuple


class NavigationEntry(NamedTuple):
    """A page of the navigation; `path` is below the console's own."""

    key: str
    title: str
    path: str


NAVIGATION = (
    NavigationEntry("first", "First page", "/"),
    NavigationEntry("statistics", "Statistics", "/statistics"),
    NavigationEntry("charts", "Charts", "/charts"),
    NavigationEntry("dashboards", "Dashboards", "/dashboards"),
    NavigationEntry("platform", "Platform", "/platform"),
    NavigationEntry("quality", "Quality", "/quality"),
    NavigationEntry("dead", "Dead letters", "/dead"),
    NavigationEntry("history", "History", "/history"),
)
