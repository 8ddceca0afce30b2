"""Online results against offline ones, each metric by the comparison that fits it.

Integers (counts, minima, maxima, sums of integers) must be equal; what is computed from fractions may differ
by the metric's own tolerance, for the two layers add in different orders. A result that only one layer has
differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa

from sluice.metrics import METRICS
from sluice.statistics.rowkey import BadRowKey, RowKey

#: A message names so many differences; how many there are is always said.
NAMED = 20
INTEGER = r"-?\d+"


@dataclass(frozen=True)
class Difference:
    """One result that the layers do not agree on; a layer that has none has None."""

    task: str
    period: str  # ISO 8601, UTC
    dimensions: Mapping[str, str]
    metric: str
    online: str | None
    offline: str | None

    def __str__(self) -> str:
        series = ", ".join(f"{name}={value!r}" for name, value in self.dimensions.items()) or "(all lines)"
        return (
            f"{self.task}, {self.period}, {series}, {self.metric}: "
            f"online {_shown(self.online)}, offline {_shown(self.offline)}"
        )


@dataclass(frozen=True)
class Comparison:
    """A comparison's rows (columns `COLUMNS`), and the first of those that differ."""

    frame: pd.DataFrame
    differing: int
    differences: tuple[Difference, ...]

    @property
    def compared(self) -> int:
        return len(self.frame)


COLUMNS = ("row", "task", "metric", "online_text", "online", "offline", "difference", "tolerance", "differs")


def compare(task: str, online: pa.Table, offline: pa.Table) -> Comparison:
    """One task version's results, joined by their row key.

    `online`: row (binary), text (as stored in HBase). `offline`: row (binary), metric, value (float64).
    """
    frame = pd.merge(
        online.to_pandas().rename(columns={"text": "online_text"}),
        offline.to_pandas().rename(columns={"value": "offline"}),
        on="row",
        how="outer",
        sort=True,
    )
    alone = frame["metric"].isna()
    frame.loc[alone, "metric"] = [_metric(row) for row in frame.loc[alone, "row"]]
    frame["task"] = task
    frame["online"] = pd.to_numeric(frame["online_text"], errors="coerce").astype(np.float64)
    whole = frame["online_text"].astype("string").str.fullmatch(INTEGER).fillna(False).to_numpy(bool)
    tolerance = frame["metric"].map({name: metric.tolerance for name, metric in METRICS.items()})
    frame["tolerance"] = np.where(whole, 0.0, tolerance.fillna(0.0))
    frame["difference"] = _relative(frame["online"].to_numpy(), frame["offline"].to_numpy(np.float64))
    # NaN: one layer has no value, or none that is a number.
    frame["differs"] = ~(frame["difference"] <= frame["tolerance"])
    first = frame[frame["differs"]].head(NAMED)
    return Comparison(
        frame[list(COLUMNS)],
        int(frame["differs"].sum()),
        tuple(_difference(task, row) for _, row in first.iterrows()),
    )


def _relative(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far apart, relative to the larger: 0 where equal, infinite where one is, NaN where one is NaN."""
    with np.errstate(invalid="ignore"):
        largest = np.maximum(np.abs(a), np.abs(b))
        apart = np.abs(a - b) / np.where(largest == 0, 1.0, largest)
    return np.where(a == b, 0.0, np.where(np.isinf(largest), np.inf, apart))


def _difference(task: str, row: pd.Series) -> Difference:
    online = None if pd.isna(row["online_text"]) else str(row["online_text"])
    offline = None if pd.isna(row["offline"]) else _number(row["offline"])
    try:
        key = RowKey.decode(row["row"])
    except BadRowKey:
        return Difference(task, "?", {"row": row["row"].decode("utf-8", "replace")}, "?", online, offline)
    return Difference(task, iso(key.period_start), dict(key.dimensions), key.metric, online, offline)


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def _metric(row: bytes) -> str:
    try:
        return RowKey.decode(row).metric
    except BadRowKey:
        return "?"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _shown(text: str | None) -> str:
    return "has none" if text is None else text
