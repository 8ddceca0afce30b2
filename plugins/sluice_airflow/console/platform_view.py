"""How the picture of the platform is drawn: small lines, signs and words for states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sluice.monitoring.flow.picture import FlowState, Picture, Sparkline

#: The size of a small line's picture, in its own units.
HEIGHT = 28
#: What hurts that is shown one by one.
MOST = 30
#: How each state is told without its colour.
SIGNS: Mapping[FlowState, str] = {
    FlowState.WORKS: "✓",
    FlowState.LATE: "!",
    FlowState.BROKEN: "✕",
    FlowState.UNKNOWN: "?",
}
WORDS: Mapping[FlowState, str] = {
    FlowState.WORKS: "works",
    FlowState.LATE: "late",
    FlowState.BROKEN: "broken",
    FlowState.UNKNOWN: "not known",
}


class Spark(NamedTuple):
    """A small line: its pieces as points of SVG polylines, and what it says."""

    pieces: tuple[str, ...]
    width: int
    says: str


def spark(line: Sparkline) -> Spark:
    """The line scaled from 0 to its largest value; a gap where nothing is known."""
    known = [value for value in line.points if value is not None]
    most = max(known, default=0.0) or 1.0
    pieces: list[list[str]] = [[]]
    for at, value in enumerate(line.points):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{at},{HEIGHT * (1 - min(value / most, 1)):.0f}")
    drawn = tuple(" ".join(each if len(each) > 1 else each * 2) for each in pieces if each)
    return Spark(drawn, max(len(line.points) - 1, 1), _says(line, known))


def verdict(picture: Picture) -> str:
    """One sentence about all of it."""
    count = len(picture.troubles)
    if count:
        return "1 thing hurts" if count == 1 else f"{count} things hurt"
    if picture.state == FlowState.WORKS:
        return "All of it works"
    return "Nothing hurts that is known; not all is known yet"


def _says(line: Sparkline, known: list[float]) -> str:
    if not known:
        return f"{line.label}: no history yet"
    unit = f" {line.unit}" if line.unit else ""
    return f"{line.label}, the last 24 hours: {_short(min(known))} to {_short(max(known))}{unit}"


def _short(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1_000 else f"{value:,.0f}"  # noqa: PLR2004
