"""Deletes the state of periods that could not be counted again after lines were erased.

A rebuild gives a version up whose metric raises, for example. Its periods stay set aside, and their old
blocks would stay in HBase with the erased lines in them. Nobody reads these blocks, and a later rebuild
counts from the archive.
"""

from __future__ import annotations

from collections.abc import Collection

from sluice.runtime.settings import Settings
from sluice.state.blocks import period_prefix
from sluice.storage.hbase import NAMES_ONLY, STATE, HBase
from sluice.storage.postgres import engine
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.epochs import PeriodKey, column_seq
from sluice.storage.tables.recounts import Recounts
from sluice.storage.tables.retention import RetentionBook


def delete_uncounted(
    settings: Settings, hbase: HBase, topic: str, asked: Collection[PeriodKey], last: int
) -> dict[PeriodKey, str]:
    """Delete what was counted of those of these periods that a rebuild gave up; returns why, by period.

    last: the commit up to which the rebuild would have counted. What later ones counted stays.
    """
    database = engine(settings)
    failed = {each.key: each.failed for each in Recounts(database, topic).all() if each.failed}
    gone = {key: failed[key] for key in sorted(asked) if key in failed}
    pointers = Backfills(database).pointers(gone)
    if pointers:
        RetentionBook(database, topic).forget_filled(pointers)  # first: nobody looks for a block that is gone
    hbase.delete(STATE, [(each.row.encode(), [each.column.encode()]) for each in pointers])
    for key in gone:
        found = hbase.scan(STATE, prefix=period_prefix(key), row_filter=NAMES_ONLY)
        old = [(row, [name for name in cells if column_seq(name) <= last]) for row, cells in found]
        hbase.delete(STATE, [(row, names) for row, names in old if names])
    return gone
