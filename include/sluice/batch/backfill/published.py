"""Filled days that were published before: readers see their published results until a night computes them.

A day is *superseded* from the moment its filling begins until a later nightly run computed it and `reconcile`
published it again. `results.pieces` reads a period of such a day, if it was published with a line of this
version, as it was published; a period without one, and each period of a version that began after the
publication, is read as it is counted and filled now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

import sqlalchemy as sa

from sluice.runtime.days import span, stretches
from sluice.storage.tables.backfills import Backfill, BackfillState
from sluice.storage.tables.days import Days

NIGHT = "nightly_batch"


def superseded(database: sa.Engine, backfills: Iterable[Backfill]) -> list[date]:
    """The days of these finished backfills, of one topic, that are published and to be computed again."""
    finished = [each for each in backfills if each.state == BackfillState.FINISHED]
    days = {day for each in finished for day in each.days}
    return Days(database, finished[0].topic).superseded_among(days) if days else []


def note(days: Sequence[date]) -> str:
    """What readers see of these superseded days, and what computes them; empty without days."""
    if not days:
        return ""
    parts = stretches(days)
    commands = ", ".join(f"`sluice nightly --from {first} --to {last}`" for first, last in parts)
    return (
        f"published before they were filled, and superseded: {', '.join(map(span, parts))}. Periods with "
        "published results keep them until these days are computed again. The next scheduled run of "
        f"{NIGHT} does it; to have it now: {commands}"
    )
