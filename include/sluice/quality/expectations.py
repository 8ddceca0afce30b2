"""What is expected of a day: of every result, and of the counts at each hop."""

from __future__ import annotations

import html
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from sluice.quality.day_hops import Hop
from sluice.quality.docs import SITE, context, escaped
from sluice.quality.two_sides import EQUAL, KEY, two_sides
from sluice.runtime.settings import Settings
from sluice.storage.tables.reconciled import KEPT

# The page lists up to this many differing results; if there are more, it only says how many.
LISTED = 200
#: Where Data Docs have the files of comparisons: validations, and their pages.
FOLDERS = ("validations", "data_docs/validations")


def validate(
    settings: Settings, topic: str, day: date, results: pd.DataFrame, hops: Sequence[Hop]
) -> list[str]:
    """Validate the two sides of a comparison (rows of `compare.COLUMNS`) and the hops; write the run's pages.

    Returns the expectations that do not hold, in words: none if the layers agree.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    # At level INFO it logs hundreds of times what it does not register, which hides the outcome.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations as gx
    from great_expectations.checkpoint import UpdateDataDocsAction
    from great_expectations.core.run_identifier import RunIdentifier

    listed = int(results["differs"].sum()) <= LISTED
    run = RunIdentifier(run_name=f"{topic} {day}")
    failed: list[str] = []
    with context(settings) as docs:
        delete_older(settings, str(run.run_name), KEPT - 1)  # this one comes
        source = docs.data_sources.add_pandas("sluice")
        for name, frame, index, expectations in (
            ("results", two_sides(results), KEY, _of_results()),
            ("hops", _hops(hops), ("hop", "left", "right"), _of_hops()),
        ):
            batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("day")
            suite = docs.suites.add(gx.ExpectationSuite(name, expectations=expectations))
            definition = docs.validation_definitions.add(
                gx.ValidationDefinition(name=name, data=batch, suite=suite)
            )
            checkpoint = docs.checkpoints.add(
                gx.Checkpoint(
                    name=name,
                    validation_definitions=[definition],
                    actions=[UpdateDataDocsAction(name="docs", site_names=[SITE])],
                    result_format={
                        "result_format": "COMPLETE" if listed else "SUMMARY",
                        "unexpected_index_column_names": list(index),
                    },
                )
            )
            found = checkpoint.run(batch_parameters={"dataframe": escaped(frame)}, run_id=run)
            failed += [text for validation in found.run_results.values() for text in _failed(validation)]
    return failed


def _failed(validation: Any) -> Iterator[str]:
    """The expectations that did not hold, each with the number of its rows and the first of them."""
    for each in validation.results:
        if each.success:
            continue
        text = f"{validation.suite_name}: {each.expectation_config.description!r} does not hold"
        rows = each.result.get("unexpected_count")
        if rows is None:  # it could not be tested
            yield f"{text}: {each.exception_info}"
            continue
        yield f"{text} for {rows} of {each.result['element_count']} rows{_first(each.result)}"


def _first(result: Mapping[str, Any]) -> str:
    """The first row of those that are not as expected: which one it is, then both sides."""
    rows = result.get("unexpected_index_list") or result.get("partial_unexpected_index_list")
    if not rows:
        return ""
    values = sorted(rows[0].items(), key=lambda item: item[0] not in KEY)
    return html.unescape(
        ", the first: " + ", ".join(f"{name} {value}" for name, value in values if value != "")
    )


def _of_results() -> list[Any]:
    from great_expectations import expectations as gxe
    from great_expectations.expectations.row_conditions import Column

    overlap = {
        "or_equal": True,
        "ignore_row_if": "either_value_is_missing",  # values that must be equal have no interval
    }
    return [
        gxe.ExpectColumnValuesToNotBeNull(
            column="online", description="Every offline result has an online one, a number or a list"
        ),
        gxe.ExpectColumnValuesToNotBeNull(
            column="offline", description="Every online result has an offline one"
        ),
        gxe.ExpectColumnPairValuesToBeEqual(
            column_A="online",
            column_B="offline",
            row_condition=Column("agree_if") == EQUAL,
            ignore_row_if="either_value_is_missing",
            description="Exact values of both layers are equal",
        ),
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="online_high",
            column_B="offline_low",
            **overlap,
            description=(
                "Online intervals reach up to the offline ones; an interval is a value with its stated "
                "error, or with the tolerance of its metric"
            ),
        ),
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="offline_high",
            column_B="online_low",
            **overlap,
            description="Offline intervals reach up to the online ones",
        ),
    ]


def _of_hops() -> list[Any]:
    from great_expectations import expectations as gxe

    return [
        gxe.ExpectColumnPairValuesToBeEqual(
            column_A="left_count", column_B="right_count", description="Both counts of every hop are equal"
        )
    ]


def _hops(hops: Sequence[Hop]) -> pd.DataFrame:
    return pd.DataFrame(
        [(h.name, h.left, h.left_count, h.right, h.right_count) for h in hops],
        columns=["hop", "left", "left_count", "right", "right_count"],
    )


def delete_older(settings: Settings, run_name: str, kept: int = KEPT) -> int:
    """Delete all but the newest comparisons of that name, in each suite; returns how many went.

    Great Expectations itself keeps all. Call it before the index is written, which lists what is there.
    """
    gone = 0
    for base in FOLDERS:
        for runs in _runs(settings.home / base, run_name):
            for old in sorted(runs.iterdir())[: -kept or None]:  # named by their times
                shutil.rmtree(old)
                gone += 1
    return gone


def _runs(base: Path, run_name: str) -> Iterator[Path]:
    """The folder of that name in each suite's."""
    if base.is_dir():
        for suite in base.iterdir():
            if (suite / run_name).is_dir():
                yield suite / run_name
