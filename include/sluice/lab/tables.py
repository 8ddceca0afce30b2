"""Tables of figures for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sluice.lab.trials import Row

Cell = str | int | float | None
Measured = dict[str, list[Row]]  # the rows of each experiment

_WHOLE = 100  # from here on digits after the point say nothing
_EXACT = 1e-4


@dataclass(frozen=True)
class Table:
    """Columns of nothing but text are set to the left, others to the right. The first one names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def markdown(self) -> str:
        text = [all(isinstance(row[n], str) for row in self.rows) for n in range(len(self.columns))]
        lines = [self.columns, ["---" if left else "---:" for left in text]]
        lines += [[shown(cell) for cell in row] for row in self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(cell: Cell) -> str:
    """Three significant digits, whole from a hundred on; nothing where there is no figure."""
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
) -> Table:
    """A row for each value of `down`, a column for each of `across`, both in the order in which they come.

    figure: which figure stands in a cell, or what is made of the row. Cells that nothing was measured for
    stay empty.
    """
    names: dict[Cell, dict[Cell, Cell]] = {}
    labels: dict[Cell, str] = {}
    for row in rows:
        labels.setdefault(row[across], shown(row[across]))
        cell = row[figure] if isinstance(figure, str) else figure(row)
        names.setdefault(row[down], {})[row[across]] = cell
    body = [[shown(name), *(cells.get(label) for label in labels)] for name, cells in names.items()]
    return Table([corner or down, *labels.values()], body)
