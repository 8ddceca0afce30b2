"""Arrow rows for people: a value that is not exact is shown with its error."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sluice.results.formats import OTHER


def for_people(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], metrics: Sequence[str]
) -> tuple[list[str], Iterator[list[object]]]:
    """Columns and rows; a value that is not exact is text, with its error."""
    from sluice.results.counted import with_error

    columns = [name for name in schema.names if name not in {f"{metric}_error" for metric in metrics}]
    encoded = {field.name for field in schema if pa.types.is_dictionary(field.type)}

    def cell(row: dict[str, Any], name: str) -> object:
        value = row[name]
        if name in metrics:
            value = json.loads(value) if isinstance(value, str) else value
            return with_error(name, value, row.get(f"{name}_error") or 0.0)
        return OTHER if value is None and name in encoded else value

    def rows() -> Iterator[list[object]]:
        for batch in batches:
            for row in batch.to_pylist():
                yield [cell(row, name) for name in columns]

    return columns, rows()
