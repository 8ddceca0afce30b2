"""Compare online with offline results by row key; `agreement` says when two agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pandas as pd
import pyarrow as pa

from sluice.engine.rowkey import BadRowKey, RowKey
from sluice.results.agreement import JUDGED, judge

#: A message names at most this many differences; it always says how many there are.
NAMED = 20
#: How many characters of a long list a message shows.
SHOWN = 200

#: The results of one layer: `text` as stored in HBase; `error` is null where the value is exact.
ONLINE_RESULTS = pa.schema([("row", pa.binary()), ("text", pa.string()), ("error", pa.float64())])
#: Offline `text` may be null unless the metric's value is a list: Hive keeps the others as doubles alone.
OFFLINE_RESULTS = pa.schema(
    [
        ("row", pa.binary()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("text", pa.string()),
        ("error", pa.float64()),
    ]
)


@dataclass(frozen=True)
class ShownDifference:
    """One result on which the layers disagree; None where a layer has no value."""

    task: str
    period: str  # ISO 8601, UTC
    dimensions: Mapping[str, str]
    metric: str
    online: str | None  # with its stated error, if it has one
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
    differences: tuple[ShownDifference, ...]

    @property
    def compared(self) -> int:
        return len(self.frame)


COLUMNS = (
    *("row", "task", "metric", "online_text", "online_error", "offline", "offline_text", "offline_error"),
    *JUDGED,
)


def compare(task: str, online: pa.Table, offline: pa.Table) -> Comparison:
    """Compare a task version's `ONLINE_RESULTS` and `OFFLINE_RESULTS`, in any order."""
    frame = pd.merge(
        online.to_pandas().rename(columns={"text": "online_text", "error": "online_error"}),
        offline.to_pandas().rename(
            columns={"value": "offline", "text": "offline_text", "error": "offline_error"}
        ),
        on="row",
        how="outer",
        sort=True,
    )
    alone = frame["metric"].isna()
    frame.loc[alone, "metric"] = [_metric(row) for row in frame.loc[alone, "row"]]
    frame["task"] = task
    judged = judge(frame)
    wrong = judged[judged["differs"]]
    return Comparison(
        judged[list(COLUMNS)],
        len(wrong),
        tuple(_difference(task, row) for _, row in wrong.head(NAMED).iterrows()),
    )


def _difference(task: str, row: pd.Series) -> ShownDifference:
    online = None if pd.isna(row["online_text"]) else str(row["online_text"])
    offline = None
    if not pd.isna(row["offline_text"]):
        offline = str(row["offline_text"])
    elif not pd.isna(row["offline"]):
        offline = _number(row["offline"])
    online, offline = _stated(online, row["online_error"]), _stated(offline, row["offline_error"])
    try:
        key = RowKey.decode(row["row"])
    except BadRowKey:
        return ShownDifference(
            task, "?", {"row": row["row"].decode("utf-8", "replace")}, "?", online, offline
        )
    return ShownDifference(task, iso(key.period_start), dict(key.dimensions), key.metric, online, offline)


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def _metric(row: bytes) -> str:
    try:
        return RowKey.decode(row).metric
    except BadRowKey:
        return "?"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _stated(text: str | None, error: float) -> str | None:
    if text is None:
        return None
    cut = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return f"{cut} ± {error!r}" if error > 0 else cut


def _shown(text: str | None) -> str:
    return "has none" if text is None else text
