"""What somebody asks to be erased, and the erasure that does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from sluice.batch.barred import barred
from sluice.erasure.matching import ErasedValue, extracts_of
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.erasures import Erasure, Erasures
from sluice.tasks.topics import TopicStore


class NothingErasable(LookupError):
    """The topic has no lines that were counted."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic!r} has no counted lines, so nothing can be erased: `sluice topics list` has the "
            "names"
        )


@dataclass(frozen=True)
class ErasureRequest:
    """The lines of a topic whose dimension has the value, of these days of event time (UTC; None: all)."""

    topic: str
    dimension: str
    value: str
    first_day: date | None = None
    last_day: date | None = None

    def lines(self, settings: Settings, cut: Mapping[str, int]) -> ErasedValue:
        """Those that came before the cut. Raises UnknownErasureDimension."""
        database = engine(settings)
        spec = TopicStore(database).get(self.topic)
        return ErasedValue(
            self.value,
            extracts_of(database, spec, self.dimension),
            spec,
            settings.limits,
            {int(partition): position for partition, position in cut.items()},
            self.first_day,
            self.last_day,
            barred(database, self.topic),
        )

    def newest_cut(self, settings: Settings) -> dict[str, int]:
        """The end of the topic's newest commit. Raises NothingErasable."""
        head = CommitLog(engine(settings), self.topic).head()
        if head is None or not any(head.end.values()):
            raise NothingErasable(self.topic)
        return dict(head.end)

    def unfinished(self, settings: Settings) -> Erasure | None:
        """The erasure of just this that is not finished; None if there is none."""
        wanted = self.dimension, self.first_day, self.last_day
        for each in Erasures(engine(settings)).unfinished(self.topic):
            if (each.dimension, each.first_day, each.last_day) == wanted and each.is_of(self.value):
                return each
        return None

    def begin(self, settings: Settings, user: str) -> Erasure:
        """A new erasure of it. Raises NothingErasable, UnknownErasureDimension."""
        cut = self.newest_cut(settings)
        self.lines(settings, cut)
        days = self.first_day, self.last_day
        book = Erasures(engine(settings))
        return book.begin(self.topic, self.dimension, self.value, days, cut=cut, user=user)
