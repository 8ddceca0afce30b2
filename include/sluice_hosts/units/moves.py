"""A plan is carried out, until nothing is left, within a budget, by one process at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from sluice.placement.base import Move
from sluice.runtime.settings import Settings
from sluice.storage.tables import units as book
from sluice.storage.tables.units import MoveRow
from sluice_hosts.units.carrying import said, unfailing
from sluice_hosts.units.kinds import Kind, Log
from sluice_hosts.units.mover import UNKNOWN, Mover


def apply(
    settings: Settings,
    database: sa.Engine,
    kinds: Sequence[Kind],
    log: Log,
    *,
    even: bool = True,
    since: datetime | None = None,
) -> list[Move]:
    """Plan as `propose` does, and do it; returns the moves. Waits for no other process.

    Raises PlacementBusy, and MoveFailed for the first unit, by its name, that could not be moved. After a
    move has failed, only units move that cannot stay where they are. Raises as `view` does, but not while a
    move is at work.
    """
    mover, log = Mover(settings, database, kinds, since), unfailing(log)
    again = False
    while _begin(mover, log, even=even and not mover.failed, again=again):
        while not mover.wait(settings.placement.beat_seconds):  # the DAG may have seen a host go
            _begin(mover, log, even=False, again=True)
        again = True
    if mover.failed:
        raise mover.failed[0]
    return mover.arrived


def _begin(mover: Mover, log: Log, *, even: bool, again: bool) -> bool:
    """Begin what can begin; whether something moves. An error now would break off what is at work."""
    try:
        return mover.begin(log, even=even, again=again)
    except Exception as error:
        if mover.wait(0):
            raise
        log(f"{UNKNOWN}: {said(error)}")
        return True


def history(database: sa.Engine) -> dict[str, MoveRow]:
    """Each unit's last move that arrived, of the moves that are kept."""
    with database.connect() as connection:
        rows = book.last_moves(connection, book.KEPT)
    return {row.unit: row for row in rows if row.ended_at and not row.error}
