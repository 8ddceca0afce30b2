"""The runbook's paragraphs, by their anchors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(```|~~~)")


@dataclass(frozen=True)
class Section:
    """A paragraph: its anchor, its heading, and its text in Markdown."""

    anchor: str
    heading: str
    text: str


class Runbook:
    """The sections of the file, read again when it changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = -1.0
        self._sections: dict[str, Section] = {}

    def sections(self) -> dict[str, Section]:
        """By anchor, in the file's order; none if there is no file."""
        try:
            changed = self._path.stat().st_mtime
            if changed != self._read:
                found = {each.anchor: each for each in sections(self._path.read_text())}
                self._sections, self._read = found, changed
        except FileNotFoundError:
            return {}
        return self._sections


def sections(text: str) -> Iterator[Section]:
    """The parts of a Markdown text below its headings of the second level."""
    heading, lines, fenced = "", list[str](), False
    for line in [*text.splitlines(), "## "]:
        if _FENCE.match(line):
            fenced = not fenced
        if line.startswith("## ") and not fenced:
            if heading:
                yield Section(anchor(heading), heading, "\n".join(lines).strip())
            heading, lines = line.removeprefix("## ").strip(), []
        else:
            lines.append(line)


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
