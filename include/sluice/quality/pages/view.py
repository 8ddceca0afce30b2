"""The view with which Great Expectations writes the pages: its sections in our own page.

The library's own page loads everything from public networks and asks for a newsletter; its templates for
the contents of a page are used unchanged.
"""

from __future__ import annotations

import re
from pathlib import Path

from great_expectations.render.view import DefaultJinjaPageView

from sluice.quality.pages.assets import SCRIPTS, STYLES

REMOTE_PICTURE = re.compile(r"url\(\s*['\"]?(?:https?:)?//[^)]*\)")


class PageView(DefaultJinjaPageView):  # type: ignore[misc]
    """Every page of the site, including the index. Great Expectations makes it by its name."""

    _template = "sluice_page.j2"

    def __init__(self) -> None:
        super().__init__(custom_views_directory=str(Path(__file__).parent))
        self.env.globals.update(styles=STYLES, scripts=SCRIPTS)
        self.env.filters["without_remote_pictures"] = without_remote_pictures


def without_remote_pictures(css: str) -> str:
    """The style sheet with ``none`` for every picture that it would load from a network."""
    return REMOTE_PICTURE.sub("none", css)
