"""Rows of figures in JSON files, so that a page can be made again without measuring again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sluice.runtime.files import write_whole
from sluice_lab.trials import Row

_DIGITS = 5


def keep(name: str, rows: Sequence[Row], folder: Path) -> Path:
    """Keep an experiment's rows; returns the file's path. A figure that a row does not have is null."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    path = folder / f"{name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps([_rounded(row.get(column)) for column in columns]) for row in rows)
    write_whole(path, f'{{"columns": {json.dumps(columns)},\n"rows": [\n{lines}\n]}}\n')
    return path


def kept(name: str, folder: Path) -> list[Row]:
    """The rows that were kept last."""
    document = json.loads((folder / f"{name}.json").read_text())
    columns = document["columns"]
    return [
        {column: value for column, value in zip(columns, row, strict=True) if value is not None}
        for row in document["rows"]
    ]


def _rounded(value: str | int | float | None) -> str | int | float | None:
    """Keep only the digits that mean something, so that files change only where a figure did."""
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
