"""What a bench found: its bars and tables, and the files that keep them."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psutil

from sluice.runtime.settings import ROOT

FOLDER = ROOT / "var" / "bench"

Cell = str | float | int | None

#: From here on, a figure is shown whole.
WHOLE = 100


def machine() -> str:
    """The machine on which the figures were measured."""
    memory = psutil.virtual_memory().total / (1 << 30)
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor() or platform.machine(),
    )
    model = model.replace("(R)", "").removesuffix(" Processor")
    return f"{os.cpu_count()} cores of {model}, {memory:.0f} GiB, {platform.system()}"


@dataclass(frozen=True)
class Bar:
    """One figure and the limit that it has to hold."""

    bar: str
    figure: float
    limit: float
    at: Literal["least", "most"] = "least"
    unit: str = "x"

    @property
    def holds(self) -> bool:
        """Whether the figure holds its limit; one that is not a number does not."""
        return self.figure >= self.limit if self.at == "least" else self.figure <= self.limit

    def as_json(self) -> dict[str, Any]:
        return {
            "bar": self.bar,
            "figure": round(self.figure, 4) if math.isfinite(self.figure) else None,
            "limit": self.limit,
            "holds": self.holds,
            "at": self.at,
            "unit": self.unit,
        }

    def line(self) -> str:
        verdict = "holds" if self.holds else "FAILS"
        return f"{verdict}  {self.bar}: {number(self.figure)} {self.unit} (at {self.at} {number(self.limit)})"


@dataclass(frozen=True)
class Table:
    """Figures for people; the first column names the row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Curve:
    """Lines over one axis, for a plot; a line that was not measured to the end has fewer `xs`."""

    title: str
    x: str
    y: str
    lines: dict[str, list[list[float]]]  # name -> [xs, ys]
    log_x: bool = True
    log_y: bool = True


@dataclass(frozen=True)
class Flame:
    """A flame graph: seconds by stack of functions (`recorder.Stacks`)."""

    title: str
    stacks: dict[str, float]


@dataclass(frozen=True)
class Outcome:
    """Everything that one bench reports."""

    bench: str
    what: str  # one paragraph on what was measured and how
    bars: Sequence[Bar]
    tables: Sequence[Table] = ()
    curves: Sequence[Curve] = ()
    quick: bool = False
    machine: str = field(default_factory=machine)
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="minutes"))
    flames: Sequence[Flame] = ()

    @property
    def holds(self) -> bool:
        return all(bar.holds for bar in self.bars)

    def write(self, folder: Path = FOLDER) -> Path:
        """Write the bars to `<bench>.json` and everything to `measured/<bench>.json`.

        Quick runs have a folder of their own.
        """
        folder = folder / "quick" if self.quick else folder
        bars = folder / f"{self.bench}.json"
        measured = folder / "measured" / bars.name
        measured.parent.mkdir(parents=True, exist_ok=True)
        bars.write_text(json.dumps([bar.as_json() for bar in self.bars], indent=1) + "\n")
        measured.write_text(json.dumps(asdict(self), indent=1) + "\n")
        return bars

    @classmethod
    def read(cls, path: Path) -> Outcome:
        """Read an outcome from ``measured/<bench>.json``."""
        kept = json.loads(path.read_text())
        kept["bars"] = [Bar(**bar) for bar in kept["bars"]]
        kept["tables"] = [Table(**table) for table in kept["tables"]]
        kept["curves"] = [Curve(**curve) for curve in kept["curves"]]
        kept["flames"] = tuple(Flame(**flame) for flame in kept.get("flames", ()))
        return cls(**kept)

    def report(self) -> int:
        """Write the files and print the outcome; returns 1 if a bar fails."""
        path = self.write()
        sys.stdout.write(f"{self.text()}\n{path}\n\n")
        return 0 if self.holds else 1

    def text(self) -> str:
        """The outcome as text for the terminal."""
        parts = [f"== {self.bench}" + (" (quick)" if self.quick else "")]
        for table in self.tables:
            parts += [table.title, *grid(table), ""]
        return "\n".join([*parts, *(bar.line() for bar in self.bars)])


def grid(table: Table) -> list[str]:
    """The table as aligned text."""
    rows = [list(map(str, table.columns)), *([cell(c) for c in row] for row in table.rows)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(table.columns))]
    return ["  ".join(c.rjust(w) if n else c.ljust(w) for n, (c, w) in enumerate(zip(r, widths, strict=True)))
            for r in rows]  # fmt: skip


def cell(value: Cell) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else number(value)


def number(value: float) -> str:
    """Three significant digits; whole from WHOLE on."""
    if value != value:  # noqa: PLR0124 - not a number
        return "not measured"
    if isinstance(value, int) or abs(value) >= WHOLE:
        return f"{value:,.0f}"
    return f"{value:.3g}"
