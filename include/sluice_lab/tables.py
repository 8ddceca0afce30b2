"""Tables of figures for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sluice_lab.trials import Row

Cell = str | int | float | None
Measured = dict[str, list[Row]]  # the rows of each experiment

_WHOLE = 100  # from here on, digits after the point mean nothing
_EXACT = 1e-4


class TextBar(NamedTuple):
    """One thing to reach. holds: whether it was. figure: what was found, in words."""

    name: str
    figure: str
    holds: bool


@dataclass(frozen=True)
class TextTable:
    """A table: columns that hold only text are aligned left, others right.

    The first column names the row.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def markdown(self) -> str:
        text = [all(isinstance(row[n], str) for row in self.rows) for n in range(len(self.columns))]
        lines = [self.columns, ["---" if left else "---:" for left in text]]
        lines += [[shown(cell) for cell in row] for row in self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(cell: Cell) -> str:
    """A figure with three significant digits, or whole from a hundred on; empty for None."""
    match cell:
        case None:
            return ""
        case str():
            return cell
        case int():
            return f"{cell:,}"
        case _ if abs(cell) >= _WHOLE:
            return f"{cell:,.0f}"
        case _ if 0 < abs(cell) < _EXACT:
            return f"{cell:.0e}"
        case _:
            return f"{cell:.3g}"


def selected(rows: Iterable[Row], **labels: Cell) -> list[Row]:
    """The rows that have these labels."""
    return [row for row in rows if all(row[name] == value for name, value in labels.items())]


def pivot(
    rows: Iterable[Row],
    down: str,
    across: str,
    figure: str | Callable[[Row], Cell],
    *,
    corner: str | None = None,
) -> TextTable:
    """A row for each value of `down` and a column for each value of `across`.

    Both are in the order in which they come. figure: which figure is in a cell, or a function that makes the
    cell from the row. Cells for which nothing was measured stay empty.
    """
    names: dict[Cell, dict[Cell, Cell]] = {}
    labels: dict[Cell, str] = {}
    for row in rows:
        labels.setdefault(row[across], shown(row[across]))
        cell = row[figure] if isinstance(figure, str) else figure(row)
        names.setdefault(row[down], {})[row[across]] = cell
    body = [[shown(name), *(cells.get(label) for label in labels)] for name, cells in names.items()]
    return TextTable([corner or down, *labels.values()], body)
