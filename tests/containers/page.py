"""Take the last run's figures into docs/containers.md: ``python -m tests.containers.page``."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from sluice.runtime.settings import ROOT

MEASURED = ROOT / "var" / "containers.json"
PAGE = ROOT / "docs" / "containers.md"
BEGIN, END = "<!-- figures: made by tests/containers/page.py -->\n", "<!-- /figures -->\n"


def table(figures: dict[str, float], day: str) -> str:
    """The figures, each a row; their names end with their units, after a comma."""
    rows = []
    for name, value in figures.items():
        what, unit = name.rsplit(", ", 1)
        rows.append(f"| {what} | {value:,.0f} {unit} |\n")
    return f"Measured by `make test-containers` on {day}:\n\n| what | found |\n|---|---:|\n{''.join(rows)}"


def replaced(page: str, made: str) -> str:
    """The page with another table. Raises ValueError if it has no place for one."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page lacks the lines {BEGIN.strip()} and {END.strip()}: put them back")
    return f"{before}{BEGIN}{made}{END}{after}"


def main(measured: Path = MEASURED, page: Path = PAGE) -> int:
    if not measured.exists():
        sys.stderr.write(f"{measured} is not there: run `make test-containers`\n")
        return 1
    day = datetime.fromtimestamp(measured.stat().st_mtime, UTC).date().isoformat()
    page.write_text(replaced(page.read_text(), table(json.loads(measured.read_text()), day)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
