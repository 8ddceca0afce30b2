"""The runbook as pages show it: Markdown as HTML, with links that lead somewhere in the console."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from sluice.monitoring.flow.runbook import Runbook
from sluice.runtime.settings import ROOT


@functools.cache
def runbook() -> Runbook:
    """This server's; the file comes with the checkout."""
    return Runbook(ROOT / "docs" / "runbook.md")


@functools.lru_cache(maxsize=64)
def as_html(text: str) -> Markup:
    """A paragraph as HTML; HTML that stands in it is escaped."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    for token in tokens:
        if token.children is not None:
            token.children = _told(token.children)
        if token.type in ("fence", "code_block", "table_open"):
            token.attrSet("tabindex", "0")  # each scrolls by itself
            token.info = ""
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))  # noqa: S704 - made of escaped text


def _told(tokens: Sequence[Token]) -> list[Token]:
    """Without pictures, which are not served; links within the page stay, others become their text."""
    found: list[Token] = []
    ends: list[bool] = []
    for token in tokens:
        keeps = True
        if token.type == "link_open":
            keeps = str(token.attrGet("href")).startswith("#")
            ends.append(keeps)
        elif token.type == "link_close":
            keeps = ends.pop()
        elif token.type == "image":
            keeps = False
        if keeps:
            found.append(token)
    return found


def shown(anchors: Sequence[str]) -> list[tuple[Any, Markup]]:
    """The sections of these anchors, each with its HTML; those that there are."""
    known = runbook().sections()
    return [(known[each], as_html(known[each].text)) for each in anchors if each in known]
