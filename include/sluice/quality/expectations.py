"""What is expected of a day: of every result, and of the counts at each hop."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from datetime import date
from typing import Any

import pandas as pd

from sluice.engine.rowkey import BadRowKey, RowKey
from sluice.quality.day_hops import Hop
from sluice.quality.docs import SITE, context, escaped
from sluice.quality.validations import forget
from sluice.results.compare import iso
from sluice.runtime.settings import Settings
from sluice.storage.reconciled import KEPT

# The page lists up to this many differing results; if there are more, it only says how many.
LISTED = 200


def validate(settings: Settings, topic: str, day: date, results: pd.DataFrame, hops: Sequence[Hop]) -> bool:
    """Validate a comparison's rows and the hops, and write the run's pages.

    Returns whether all expectations hold.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    # At level INFO it logs hundreds of times what it does not register, which hides the outcome.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations as gx
    from great_expectations.checkpoint import UpdateDataDocsAction
    from great_expectations.core.run_identifier import RunIdentifier

    listed = int(results["differs"].sum()) <= LISTED
    run = RunIdentifier(run_name=f"{topic} {day}")
    success = True
    with context(settings) as docs:
        forget(settings, str(run.run_name), KEPT - 1)  # this one comes
        source = docs.data_sources.add_pandas("sluice")
        for name, frame, index, expectations in (
            ("results", _results(results), ["task", "period", "series", "metric"], _of_results()),
            ("hops", _hops(hops), ["hop", "left", "right"], _of_hops()),
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
                        "unexpected_index_column_names": index,
                    },
                )
            )
            found = checkpoint.run(batch_parameters={"dataframe": escaped(frame)}, run_id=run)
            success = success and bool(found.success)
    return success


def _of_results() -> list[Any]:
    from great_expectations import expectations as gxe

    return [
        gxe.ExpectColumnValuesToNotBeNull(
            column="online",
            description="Every offline result has an online one, and it is a number (of a list: its first)",
        ),
        gxe.ExpectColumnValuesToNotBeNull(
            column="offline", description="Every online result has an offline one"
        ),
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="tolerance",
            column_B="difference",
            or_equal=True,
            ignore_row_if="either_value_is_missing",
            description=(
                "Online and offline differ by no more than the metric allows: exact values not at all, "
                "deviations and a team's metrics by their tolerance, sketched values by the errors that both "
                "layers state"
            ),
        ),
    ]


def _of_hops() -> list[Any]:
    from great_expectations import expectations as gxe

    return [
        gxe.ExpectColumnPairValuesToBeEqual(
            column_A="left_count", column_B="right_count", description="Both counts of every hop are equal"
        )
    ]


def _results(frame: pd.DataFrame) -> pd.DataFrame:
    """The comparison, with the keys of differing results spelled out: only these are printed."""
    shown = frame.drop(columns=["row", "differs", "offline_text"])
    keys = [
        _key(row) if differs else None for row, differs in zip(frame["row"], frame["differs"], strict=True)
    ]
    shown.insert(1, "period", [iso(key.period_start) if key else "" for key in keys])
    shown.insert(
        2, "series", [", ".join(f"{n}={v}" for n, v in key.dimensions) if key else "" for key in keys]
    )
    return shown


def _key(row: bytes) -> RowKey | None:
    try:
        return RowKey.decode(row)
    except BadRowKey:
        return None


def _hops(hops: Sequence[Hop]) -> pd.DataFrame:
    return pd.DataFrame(
        [(h.name, h.left, h.left_count, h.right, h.right_count) for h in hops],
        columns=["hop", "left", "left_count", "right", "right_count"],
    )
