"""Make docs/performance.md and its plots from measurements: ``python -m sluice_lab.bench page``."""

from __future__ import annotations

import re
import sys
import textwrap
from datetime import datetime
from pathlib import Path

from sluice.runtime.settings import ROOT
from sluice_lab.bench.flames import draw
from sluice_lab.bench.outcome import FOLDER, Bar, Outcome, Table, cell, number
from sluice_lab.bench.plots import plot

PAGE = ROOT / "docs" / "performance.md"
IMAGES = ROOT / "docs" / "images"

HEADER = """# Performance

Made by `python -m sluice_lab.bench page` from what the benches wrote into `var/bench`; only the
[tuning notes](#tuning-notes) at its end are edited by hand.
`make bench` runs all but those of grouping, which `make bench-grouping` runs; both exit with 1 where a bar
fails. `python -m sluice_lab.bench NAME` runs one, `--quick` with less of everything. A figure that compares
is a ratio within one run: the contenders are first shown to compute the same, then they take turns, and the
median of the rounds counts.
"""
#: The section that people write; it comes last, and stays as it is.
NOTES = "Tuning notes"
WIDTH = 105
BAR_COLUMNS = ("bar", "figure", "limit", "holds")


def write(folder: Path = FOLDER, page: Path = PAGE, images: Path = IMAGES) -> None:
    """Write the page and the plots of every bench that was measured here.

    What the page says about other benches, which may have been measured on another machine, stays with its
    date. Raises SystemExit if no bench was measured.
    """
    from sluice_lab.bench.__main__ import BENCHES

    files = [folder / "measured" / f"{name}.json" for name in BENCHES]
    outcomes = [Outcome.read(path) for path in files if path.exists()]
    if not outcomes:
        raise SystemExit(f"nothing was measured yet in {folder}: run `make bench`")
    shown = sections(page.read_text()) if page.exists() else {}
    shown |= {outcome.bench: section(outcome) for outcome in outcomes}
    page.write_text("\n".join([HEADER, *(shown[name] for name in (*BENCHES, NOTES) if name in shown)]))
    for outcome in outcomes:
        for path, curve in zip(plots(outcome), outcome.curves, strict=True):
            plot(curve, images / path)
        for path, flame in zip(flames(outcome), outcome.flames, strict=True):
            draw(flame, images / path)
    sys.stdout.write(f"{page}: {', '.join(outcome.bench for outcome in outcomes)}\n")


def sections(page: str) -> dict[str, str]:
    """The sections of a page by bench, each with its heading, as `section` writes them; and the notes."""
    return {part.split("\n", 1)[0]: f"## {part.rstrip()}\n" for part in re.split(r"(?m)^## ", page)[1:]}


def plots(outcome: Outcome) -> list[str]:
    """The file names of an outcome's plots."""
    return _names(outcome, len(outcome.curves))


def flames(outcome: Outcome) -> list[str]:
    """The file names of an outcome's flame graphs."""
    return [path.replace("bench-", "flames-") for path in _names(outcome, len(outcome.flames))]


def _names(outcome: Outcome, number: int) -> list[str]:
    return [f"bench-{outcome.bench}{f'-{n}' if n else ''}.svg".replace("_", "-") for n in range(number)]


def bars(page: str) -> dict[str, list[Bar]]:
    """The bars that a page shows, by bench, read back from what `section` wrote."""
    found: dict[str, list[Bar]] = {}
    for name, text in sections(page).items():
        if name == NOTES:
            continue
        rows = text.split("| " + " | ".join(BAR_COLUMNS) + " |\n", 1)[1].split("\n\n", 1)[0]
        for row in rows.splitlines()[1:]:
            bar, figure, limit, holds = (part.strip() for part in row.strip("|").split("|"))
            words = re.fullmatch(r"at (least|most) (\S+) ?(.*)", limit)
            if words is None:
                raise ValueError(f"{row!r} is no row of bars: expected a limit such as 'at least 10 x'")
            value = float(figure.split(" ")[0].replace(",", ""))
            made = Bar(bar, value, float(words[2].replace(",", "")), words[1], words[3])  # type: ignore[arg-type]
            if made.holds != (holds == "yes"):
                raise ValueError(f"{row!r}: the figure and the limit say otherwise")
            found.setdefault(name, []).append(made)
    return found


def _wrapped(text: str) -> str:
    """The paragraphs of a text in lines of WIDTH: figures that were filled in may have made some longer."""
    fill = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False).fill
    return "\n\n".join(fill(paragraph) for paragraph in text.split("\n\n"))


def section(outcome: Outcome) -> str:
    """The page's section about one bench."""
    at = datetime.fromisoformat(outcome.at).strftime("%Y-%m-%d %H:%M UTC")
    parts = [
        f"## {outcome.bench}",
        _wrapped(outcome.what),
        f"`python -m sluice_lab.bench {outcome.bench}`{' `--quick`' if outcome.quick else ''}, {at}, "
        f"{outcome.machine}.",
        _markdown(
            Table(
                "",
                BAR_COLUMNS,
                [
                    [
                        bar.bar,
                        f"{number(bar.figure)} {bar.unit}".rstrip(),
                        f"at {bar.at} {number(bar.limit)} {bar.unit}".rstrip(),
                        "yes" if bar.holds else "**no**",
                    ]
                    for bar in outcome.bars
                ],
            )
        ),
    ]
    for table in outcome.tables:
        parts += [f"### {table.title}", _markdown(table)]
    parts += [
        f"![{curve.title}](images/{path})" for path, curve in zip(plots(outcome), outcome.curves, strict=True)
    ]
    parts += [
        f"![{flame.title}](images/{path})"
        for path, flame in zip(flames(outcome), outcome.flames, strict=True)
    ]
    return "\n\n".join(parts) + "\n"


def _markdown(table: Table) -> str:
    rows = [
        list(table.columns),
        ["---"] * len(table.columns),
        *([cell(c) for c in row] for row in table.rows),
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
