"""When the two layers' values of one result agree: the rule that fits each metric.

==========  ===============================================================================================
exact       counts, minima, maxima, sums, averages: equal.
fractions   other metrics: within the metric's own relative tolerance, because the two layers add in
            different orders; integers are equal.
``unique``  equal. Both layers hash the same values into the same registers, so the estimate is the same in
            any order; its stated error is about the truth, not about the other layer.
quantiles   the stated error is half the width, in the measure's unit, of the interval around the value in
            which the true quantile lies. Both layers' intervals hold the same truth, so they overlap:
            ``|online - offline| <= error + error``. Without an error both are exact, and equal.
top-k       the stated error is how far a count may be from the true one. The counts of a value that both
            lists name differ by no more than both errors. A value that only one list names would be in the
            other if its count there exceeded the least count listed there (or 0, if that list is not full).
            So its count exceeds that by no more than both errors. Without an error the lists are the same.
==========  ===============================================================================================

A result that only one layer has, or that is not a number, differs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sluice.metrics import UnknownMetric, metric
from sluice.runtime.arrays import Floats

#: A top-k result: values with their counts, the largest first.
Ranking = list[tuple[str, float]]

INTEGER = r"-?\d+"
TOP = re.compile(r"top(\d+)")
#: Allowed for rounding: the ends of two intervals that just touch are computed from different numbers.
ROUNDING = 1e-12

#: What `judge` reads of a result. Texts as stored; errors are null or NaN where a value is exact.
GIVEN = ("metric", "online_text", "online_error", "offline", "offline_text", "offline_error")
#: What `judge` says of it. `difference` and `tolerance` are relative for fractions, in the metric's own unit
#: (a measure, a count) for sketched metrics.
JUDGED = ("online", "difference", "tolerance", "differs")


def judge(given: pd.DataFrame) -> pd.DataFrame:
    """The columns `GIVEN` of results, a row each, with `JUDGED` added."""
    frame = given.reset_index(drop=True)
    texts = frame["online_text"].astype("string")
    online = np.array([number(text) for text in frame["online_text"]], np.float64)
    offline = frame["offline"].to_numpy(np.float64)
    errors = _zeros(frame["online_error"]) + _zeros(frame["offline_error"])
    rules = {name: rule_of(name) for name in frame["metric"].unique()}
    fractions = frame["metric"].map({name: rule.tolerance for name, rule in rules.items()})
    interval = frame["metric"].map({name: rule.interval for name, rule in rules.items()})

    whole = texts.str.fullmatch(INTEGER).fillna(False).to_numpy(bool)
    tolerance = np.where(whole, 0.0, fractions.to_numpy(np.float64))
    difference = _relative(online, offline)
    wide = interval.to_numpy(bool) & (errors > 0)
    largest = np.fmax(np.abs(online), np.abs(offline))
    tolerance[wide] = (errors + ROUNDING * np.where(np.isfinite(largest), largest, 0.0))[wide]
    difference[wide] = _absolute(online, offline)[wide]
    lists = frame["metric"].map({name: rule.size for name, rule in rules.items()}).to_numpy(np.int64)
    for at in np.flatnonzero(lists).tolist():
        a, b = ranking(frame.at[at, "online_text"]), ranking(frame.at[at, "offline_text"])
        online[at] = np.nan if a is None else a[0][1] if a else 0.0
        tolerance[at] = errors[at]
        difference[at] = np.nan if a is None or b is None else _apart(a, b, int(lists[at]), errors[at] == 0)
    # NaN: one layer has no value, or none that is a number.
    judged = (online, difference, tolerance, ~(difference <= tolerance))
    return frame.assign(**dict(zip(JUDGED, judged, strict=True)))


def has_error(name: str) -> bool:
    """Whether the metric's results come with a stated error."""
    try:
        return metric(name).sketched
    except UnknownMetric:
        return False


def how(name: str) -> str:
    """The rule by which two results of the metric agree, in a few words."""
    rule = rule_of(name)
    if rule.interval or rule.size:
        return "within stated errors"
    return f"fractions to {rule.tolerance:g}" if rule.tolerance else "equal"


def ranking(text: object) -> Ranking | None:
    """Read the stored text of a top-k result; None if the text is no such list."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
        return [(value, float(count)) for value, count in found] if isinstance(found, list) else None
    except (ValueError, TypeError):
        return None


def distance(a: Ranking, b: Ranking, size: int) -> float:
    """How far two top-k lists of at most `size` values are apart, in counts."""
    return max(_one_way(a, b, size), _one_way(b, a, size), 0.0)


def _one_way(a: Ranking, b: Ranking, size: int) -> float:
    others: Mapping[str, float] = dict(b)
    least = min(others.values(), default=0.0) if len(b) >= size else 0.0
    apart = (abs(count - others[value]) if value in others else count - least for value, count in a)
    return max(apart, default=0.0)


def _apart(a: Ranking, b: Ranking, size: int, exact: bool) -> float:
    found = distance(a, b, size)
    return max(found, 1.0) if exact and a != b else found


@dataclass(frozen=True)
class AgreementRule:
    """How a metric's results are compared."""

    tolerance: float = 0.0  # relative, of fractions
    interval: bool = False  # do its errors say in which interval the truth lies?
    size: int = 0  # of a top-k list; 0: it is no list


def rule_of(name: str) -> AgreementRule:
    """The rule that fits the metric; for a name that no metric has, values are equal."""
    try:
        found = metric(name)
    except UnknownMetric:  # the row key could not be read, or a team has taken the metric away
        return AgreementRule()
    top = TOP.fullmatch(name)
    if top is not None:
        return AgreementRule(size=int(top[1]))
    return AgreementRule(found.tolerance, found.sketched and name != "unique")


def number(text: object) -> float:
    """The double of a stored text, NaN if it has none; pandas sometimes reads a decimal as the next one."""
    try:
        return float(text) if isinstance(text, str) else np.nan
    except ValueError:
        return np.nan


def _relative(a: Floats, b: Floats) -> Floats:
    """How far apart they are, relative to the larger one.

    It is 0 where they are equal, else infinite where one is infinite, NaN where one is NaN.
    """
    with np.errstate(invalid="ignore"):
        largest = np.maximum(np.abs(a), np.abs(b))
        apart = np.abs(a - b) / np.where(largest == 0, 1.0, largest)
    return np.where(a == b, 0.0, np.where(np.isinf(largest), np.inf, apart))


def _absolute(a: Floats, b: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, np.abs(a - b))


def _zeros(errors: pd.Series[Any]) -> Floats:
    found: Floats = pd.to_numeric(errors, errors="coerce").fillna(0.0).to_numpy(np.float64)
    return found
