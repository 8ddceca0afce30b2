"""Great Expectations' own verdict on a comparison, and what comes of it if it is another one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from sluice.engine.rowkey import RowKey
from sluice.quality.day_comparison import DayComparison
from sluice.quality.day_hops import Hop
from sluice.quality.expectations import LISTED, validate
from sluice.quality.reconcile import DocsDisagree, check_verdicts
from sluice.results import compare
from sluice.results.compare import OFFLINE_RESULTS, ONLINE_RESULTS
from sluice.runtime.settings import Settings
from sluice.storage.tables.days import Day

pytestmark = pytest.mark.slow

MINUTE = 1431857100000  # 2015-05-17T10:05:00Z
DAY = date(2015, 5, 17)
HOPS = (Hop("archive", "Kafka", 3, "HDFS", 3),)
#: A result by metric: the online text, the offline value and text, and the error of both.
Results = dict[str, tuple[str, float, str | None, float]]
AGREEING: Results = {
    "count": ("3", 3.0, None, 0.0),
    "stddev": ("0.30000000000000004", 0.3, None, 0.0),
    "p95": ("10.0", 13.0, None, 2.0),
    "top2": ('[["/a", 9], ["/b", 4]]', 8.0, '[["/a", 8], ["/c", 5]]', 1.0),
}
DIFFERENT: list[Results] = [
    {"count": ("3", 4.0, None, 0.0)},
    {"stddev": ("0.3001", 0.3, None, 0.0)},
    {"p95": ("10.0", 15.0, None, 2.0)},
    {"p95": ("15.0", 10.0, None, 2.0)},
    {"top2": ('[["/a", 9], ["/b", 4]]', 8.0, '[["/a", 8], ["/c", 9]]', 1.0)},
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(instance="test", home=tmp_path_factory.mktemp("instance"), port_base=29_000)


def compared(results: Results, hops: tuple[Hop, ...] = HOPS) -> DayComparison:
    rows = [RowKey(7, 2, (("path", "/a&b"),), metric, MINUTE).encode() for metric in results]
    texts, values, lists, errors = (list(column) for column in zip(*results.values(), strict=True))
    found = compare.compare(
        "hits (7v2)",
        pa.table([rows, texts, errors], schema=ONLINE_RESULTS),
        pa.table([rows, list(results), values, lists, errors], schema=OFFLINE_RESULTS),
    )
    at = datetime(2015, 5, 18, tzinfo=UTC)
    day = Day("logs", DAY, {}, "run", 1, at, 3, 3, None, None)
    return DayComparison(day, found.frame, found.differing, found.differences, hops, (), (), ())


def verdict(settings: Settings, found: DayComparison) -> list[str]:
    """The expectations that do not hold; raises DocsDisagree."""
    failed = validate(settings, "logs", DAY, found.frame, found.hops)
    check_verdicts(found, failed, Path("/docs"))
    return failed


def blind(says: bool) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A `judge` that says of all results that they differ, or that none does."""

    def judge(given: pd.DataFrame) -> pd.DataFrame:
        same: dict[str, Any] = {"online": given["offline"], "difference": 0.0, "tolerance": 0.0}
        return given.assign(**same, differs=says)

    return judge


def test_both_agree_on_what_agrees(settings: Settings) -> None:
    assert verdict(settings, compared(AGREEING)) == []


@pytest.mark.parametrize("wrong", DIFFERENT)
def test_a_comparison_that_overlooks_a_difference_is_found_out(
    settings: Settings, wrong: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdict(settings, compared({**AGREEING, **wrong})) != []
    monkeypatch.setattr(compare, "judge", blind(says=False))
    found = compared({**AGREEING, **wrong})
    assert found.agrees
    with pytest.raises(DocsDisagree) as raised:
        verdict(settings, found)
    (metric,) = wrong
    said, first, *_ = str(raised.value).splitlines()
    assert said == (
        "logs 2015-05-17: by the comparison the layers agree, by Great Expectations they do not agree, so "
        "nothing was published; see /docs"
    )
    assert (
        f"the first: task hits (7v2), period 2015-05-17T10:05:00Z, series path=/a&b, metric {metric}" in first
    )


def test_a_result_that_only_one_layer_has_is_found_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "judge", blind(says=False))
    found = compared(AGREEING)
    found.frame.loc[0, "online_text"] = None
    with pytest.raises(DocsDisagree, match=r"'Every offline result has an online one.*for 1 of 6 rows"):
        verdict(settings, found)


def test_a_comparison_that_makes_up_a_difference_is_found_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "judge", blind(says=True))
    with pytest.raises(
        DocsDisagree, match="the layers do not agree, by Great Expectations they agree"
    ) as raised:
        verdict(settings, compared(AGREEING))
    assert "logs 2015-05-17 differs in 4 of 4 results" in str(raised.value)


def test_hops_are_tested_as_well(settings: Settings) -> None:
    (failed,) = verdict(settings, compared(AGREEING, (Hop("archive", "Kafka", 3, "HDFS", 2),)))
    assert failed.startswith("hops: 'Both counts of every hop are equal' does not hold for 1 of 1 rows")


def test_of_many_differences_the_number_is_said(settings: Settings) -> None:
    one = compared({"count": ("3", 4.0, None, 0.0)})
    many = pd.concat([one.frame] * (LISTED + 1), ignore_index=True)
    (failed,) = validate(settings, "logs", DAY, many, HOPS)
    assert f"does not hold for {LISTED + 1} of {LISTED + 1} rows" in failed
