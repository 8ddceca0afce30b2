"""Counts lines for versions that were filled backwards.

These versions came after the lines, so they do not decide which lines are dead letters.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from sluice.engine.count import count
from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import Failures


def count_apart(batch: pa.RecordBatch | pa.Table, plan: EnginePlan) -> tuple[pa.Table, Failures]:
    """Count living lines, each version by its own rules: PARTIALS, and why versions failed.

    In the speed layer a dimension's value over the limit makes the line a dead letter for every task. These
    lines passed that check without the versions of this plan. So here such a value keeps a line only from the
    version whose value it is. Where one is found, which is rare, each version counts alone.
    """
    counted = count(batch, plan)
    if counted.reason.null_count == len(counted.reason) or len(plan.tasks) == 1:
        return counted.partials, counted.failed
    alone = [count(batch, replace(plan, tasks=(task,))) for task in plan.tasks]
    failed = {version: why for each in alone for version, why in each.failed.items()}
    return pa.concat_tables([each.partials for each in alone]), failed
