"""Flame graphs as small SVG files: what calls what, and how much of the time each takes."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from sluice_lab.bench.outcome import Flame

WIDTH, HEIGHT, LETTER = 1000.0, 17, 6.2
#: What takes less than this share of the whole is left out.
LEAST = 0.004
_COLOURS = ("#e8754a", "#e99a4f", "#ecb95f", "#e3825f", "#efa96b")


def draw(flame: Flame, path: Path) -> None:
    """Write the flame graph; callers stand above what they call, widths are shares of the time."""
    whole = sum(flame.stacks.values())
    boxes = list(
        _boxes([(stack.split(";"), seconds) for stack, seconds in flame.stacks.items()], 0, 0.0, whole)
    )
    deepest = max((depth for depth, *_ in boxes), default=0)
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {(deepest + 2) * HEIGHT + 4}" '
        'font-family="monospace" font-size="10">',
        f'<text x="2" y="12">{escape(flame.title)}</text>',
    ]
    for depth, name, start, seconds in boxes:
        x, width = start / whole * WIDTH, seconds / whole * WIDTH
        shown = name if len(name) * LETTER < width else name[: max(0, int(width / LETTER) - 1)]
        rows.append(
            f"<g><title>{escape(name)}: {seconds / whole:.1%}</title>"
            f'<rect x="{x:.1f}" y="{(depth + 1) * HEIGHT}" width="{width:.1f}" height="{HEIGHT - 1}" '
            f'fill="{_COLOURS[sum(map(ord, name)) % len(_COLOURS)]}"/>'
            f'<text x="{x + 2:.1f}" y="{(depth + 1) * HEIGHT + 12}">{escape(shown)}</text></g>'
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*rows, "</svg>"]) + "\n")


def _boxes(
    stacks: list[tuple[list[str], float]], depth: int, start: float, whole: float
) -> Iterator[tuple[int, str, float, float]]:
    """(depth, name, start, seconds) of each function, the most expensive of a caller's first."""
    called: dict[str, list[tuple[list[str], float]]] = {}
    for stack, seconds in stacks:
        if len(stack) > depth:
            called.setdefault(stack[depth], []).append((stack, seconds))
    spent = {name: sum(seconds for _, seconds in own) for name, own in called.items()}
    for name in sorted(called, key=lambda name: (-spent[name], name)):
        if spent[name] >= LEAST * whole:
            yield depth, name, start, spent[name]
            yield from _boxes(called[name], depth + 1, start, whole)
        start += spent[name]
