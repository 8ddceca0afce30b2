"""What the laboratory's commands print when they have made a page: its tables, and whether a bar fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sluice.cli.output.format import Format, write

if TYPE_CHECKING:
    from sluice_lab.tables import TextBar


def report(page: Path, bars: Sequence[TextBar]) -> None:
    """Print every table of a page that was written. Raises Exit(1) if a bar fails, and names it."""
    for part in tables(page.read_text()):
        if isinstance(part, str):
            typer.echo(f"\n{part}")
        else:
            write(part[0], part[1:], Format.TABLE)
    typer.echo(f"wrote {page}", err=True)
    failed = [bar for bar in bars if not bar.holds]
    for bar in failed:
        typer.echo(f"fails: {bar.name}: {bar.figure}", err=True)
    if failed:
        raise typer.Exit(1)


def tables(page: str) -> Iterator[str | list[list[str]]]:
    """The rows of each table of a Markdown page, its columns first, after what leads to it.

    That is, as texts, the headings since the table before, and the text above it if that ends with a colon.
    """
    leads: list[str] = []
    for block in page.split("\n\n"):
        for in_table, lines in groupby(block.splitlines(), lambda line: line.startswith("|")):
            if in_table:
                yield from leads
                leads = []
                columns, _, *rows = [line[2:-2].split(" | ") for line in lines]
                yield [columns, *rows]
            else:
                leads = _leads(leads, list(lines))


def _leads(leads: list[str], lines: list[str]) -> list[str]:
    """What leads to the next table after these lines: a heading ends those that are as deep, and all text."""
    for line in lines:
        if line.startswith("#"):
            depth = line.index(" ")
            leads = [each for each in leads if each.startswith("#") and each.index(" ") < depth] + [line]
    text = " ".join(line for line in lines if not line.startswith("#"))
    return [*leads, text] if text.endswith(":") else leads
