"""Both layers' results side by side, as Great Expectations tests them.

`results.agreement` computes how far two results are apart, and whether that is too far. Here nothing of it is
used but the rule for each metric. Each side has what it holds for true: a value that must equal the other
one, or an interval that must overlap the other one. So each of the two verdicts can find a fault in the
other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pandas as pd

from sluice.engine.rowkey import BadRowKey, RowKey
from sluice.results.agreement import INTEGER, ROUNDING, AgreementRule, Ranking, number, ranking, rule_of
from sluice.results.compare import iso
from sluice.runtime.arrays import Floats

EQUAL, OVERLAP = "equal", "intervals overlap"
#: The ends of both intervals; null where values must be equal.
ENDS = ("online_low", "online_high", "offline_low", "offline_high")
SIDES = ("agree_if", "online", "offline", *ENDS)
#: Which result a row is of; `item` is a value of a list. Period and series are empty where both sides are the
#: same: a day has hundreds of thousands of results, and pages list only those that differ.
KEY = ("task", "period", "series", "metric", "item")


def two_sides(results: pd.DataFrame) -> pd.DataFrame:
    """The rows of `compare.COLUMNS` as rows of `KEY` and `SIDES`.

    A list that is not exact has a row for each value in it, any other result has one row. `online` and
    `offline` are null where a layer has no result, or none that can be read.
    """
    rules = {name: rule_of(name) for name in results["metric"].unique()}
    is_list = results["metric"].map({name: rule.size > 0 for name, rule in rules.items()}).astype(bool)
    frame = _numbers(results[~is_list], rules)
    if is_list.any():
        lists = _lists(results[is_list], rules)
        frame = pd.concat([frame, lists], ignore_index=True) if len(frame) else lists
    same = (frame["online"] == frame["offline"]).to_numpy(bool)
    keys = [("", "") if each else _key(row) for row, each in zip(frame["row"], same, strict=True)]
    frame["period"] = [period for period, _ in keys]
    frame["series"] = [series for _, series in keys]
    return frame[[*KEY, *SIDES]]


def _numbers(results: pd.DataFrame, rules: Mapping[str, AgreementRule]) -> pd.DataFrame:
    """A row each, with their `row`."""
    online = np.array([number(text) for text in results["online_text"]], np.float64)
    offline = results["offline"].to_numpy(np.float64)
    errors = [_or_zero(results[name]) for name in ("online_error", "offline_error")]
    intervals = results["metric"].map({name: rule.interval for name, rule in rules.items()}).to_numpy(bool)
    stated = intervals & (errors[0] + errors[1] > 0)
    whole = results["online_text"].astype("string").str.fullmatch(INTEGER).fillna(False).to_numpy(bool)
    fractions = results["metric"].map({name: rule.tolerance for name, rule in rules.items()})
    relative = np.where(stated, ROUNDING, np.where(whole, 0.0, fractions.to_numpy(np.float64)))
    equal = relative == 0
    largest = np.fmax(np.abs(online), np.abs(offline))
    # What is relative to the larger one of both is no side's own: the offline interval has it.
    allowed = relative * np.where(np.isfinite(largest), largest, 0.0)
    ours, theirs = np.where(stated, errors[0], 0.0), np.where(stated, errors[1], 0.0) + allowed
    ends = (online - ours, online + ours, offline - theirs, offline + theirs)
    return pd.DataFrame(
        {
            **{name: results[name].to_numpy() for name in ("row", "task", "metric")},
            "item": "",
            "agree_if": np.where(equal, EQUAL, OVERLAP),
            "online": pd.Series(online, dtype=object),  # lists are text
            "offline": pd.Series(offline, dtype=object),
            **{name: np.where(equal, np.nan, end) for name, end in zip(ENDS, ends, strict=True)},
        }
    )


def _lists(results: pd.DataFrame, rules: Mapping[str, AgreementRule]) -> pd.DataFrame:
    """A row for each value of a list that is not exact, and for each other list; with their `row`."""
    names = ("row", "task", "metric", "online_text", "offline_text")
    errors = (_or_zero(results[name]) for name in ("online_error", "offline_error"))
    rows: list[tuple[object, ...]] = []
    for row, task, metric, ours, theirs, our_error, their_error in zip(
        *(results[name] for name in names), *errors, strict=True
    ):
        a, b, size = ranking(ours), ranking(theirs), rules[metric].size
        if a is None or b is None or our_error + their_error == 0:
            rows.append((row, task, metric, "", EQUAL, _text(a), _text(b), *[np.nan] * len(ENDS)))
            continue
        online, offline = _ListSide(a, size, our_error), _ListSide(b, size, their_error)
        for item in dict.fromkeys(value for value, _ in (*a, *b)):
            shown = online.shown(item), offline.shown(item)
            ends = (*online.interval(item), *offline.interval(item))
            rows.append((row, task, metric, item, OVERLAP, *shown, *ends))
    return pd.DataFrame(rows, columns=["row", "task", "metric", "item", *SIDES])


class _ListSide:
    """What one layer's list of at most `size` values says of the count of any value.

    A value that it does not name has at most the least count that it names; if it is not full, none. All
    counts may be wrong by `error`.
    """

    def __init__(self, listed: Ranking, size: int, error: float) -> None:
        self._counts, self._error = dict(listed), error
        self._least = min(self._counts.values(), default=0.0) if len(listed) >= size else 0.0

    def interval(self, item: str) -> tuple[float, float]:
        if item not in self._counts:
            return 0.0, self._least + self._error
        return self._counts[item] - self._error, self._counts[item] + self._error

    def shown(self, item: str) -> float | str:
        return self._counts.get(item, f"not named: at most {self._least:g}")


def _text(listed: Ranking | None) -> str | None:
    return None if listed is None else json.dumps(listed)


def _or_zero(errors: pd.Series[float]) -> Floats:
    found: Floats = pd.to_numeric(errors, errors="coerce").fillna(0.0).to_numpy(np.float64)
    return found


def _key(row: bytes) -> tuple[str, str]:
    """The period and the series of a result, as they are printed."""
    try:
        key = RowKey.decode(row)
    except BadRowKey:
        return "", ""
    return iso(key.period_start), ", ".join(f"{name}={value}" for name, value in key.dimensions)
