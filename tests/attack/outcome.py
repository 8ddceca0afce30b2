"""What an attack came to, in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

SHOWN = 40  # holes that are printed


@dataclass
class Outcome:
    """How many attempts of each kind ended how, and those that should not have ended so.

    `counted`: by (row, column), such as a caller and a status. `holes`: one line each.
    """

    title: str
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)
    holes: list[str] = field(default_factory=list)

    def add(self, row: str, column: str, hole: str = "") -> None:
        self.counted[row, column] += 1
        if hole:
            self.holes.append(hole)

    @property
    def attempts(self) -> int:
        return self.counted.total()

    def text(self) -> str:
        """A table of the figures, then the holes."""
        columns = sorted({column for _, column in self.counted})
        rows = list(dict.fromkeys(row for row, _ in self.counted))
        head = ["", *columns, "all"]
        cells = [head]
        for row in rows:
            figures = [self.counted[row, column] for column in columns]
            cells.append([row, *(str(figure or "") for figure in figures), str(sum(figures))])
        return "\n".join(
            [
                f"== {self.title}: {self.attempts:,} attempts, {len(self.holes)} holes",
                *_aligned(cells),
                *(f"HOLE  {hole}" for hole in self.holes[:SHOWN]),
                *([f"... and {len(self.holes) - SHOWN} more"] if len(self.holes) > SHOWN else []),
            ]
        )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if n else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
