"""The set-aside list of a topic whose commits are in memory (`test_epochs.Book`), in memory, too."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.storage.tables.epochs import PeriodKey
from sluice.storage.tables.recounts import BlockDamage
from tests.state.test_epochs import Book


class AsideList:
    """What `storage.tables.recounts.Recounts` does, without PostgreSQL."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.why: dict[PeriodKey, str] = {}

    def of(self, keys: Iterable[PeriodKey]) -> set[PeriodKey]:
        return set(keys) & self.why.keys()

    def set_aside(self, damages: Iterable[BlockDamage]) -> set[PeriodKey]:
        found = list(damages)
        gone = self.book.set_aside(found)
        self.why |= {each.key: each.why for each in found if each.key in gone}
        return gone
