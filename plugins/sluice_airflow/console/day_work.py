"""What goes on day by day, as pages list it: backfills and rebuilds."""

from __future__ import annotations

from datetime import date, datetime
from typing import NamedTuple

from sluice.storage.tables.backfills import Backfill
from sluice.storage.tables.rebuilds import Rebuild, RebuildState
from sluice_airflow.console.forms import Form


class DayWork(NamedTuple):
    """One of them. note: more of its state. wrong: why its last try ended badly. of: 0 until it has begun."""

    what: str
    days: str
    state: str
    note: str
    wrong: str
    done: int
    of: int
    asked_at: datetime
    asked_by: str
    ended: bool

    @classmethod
    def of_backfill(cls, each: Backfill) -> DayWork:
        days = f"{each.first_day} to {each.last_day}"
        asked = each.requested_at, each.requested_by
        done = each.done_days, len(each.days)
        return cls("", days, each.state, "", each.message or "", *done, *asked, each.ended)

    @classmethod
    def of_rebuild(cls, each: Rebuild, what: str) -> DayWork:
        days = f"{each.first_day or 'the first'} to {each.last_day or 'the last'}"
        if each.first_day is each.last_day is None:
            days = f"{each.days[0]} to {each.days[-1]}" if each.days else "all"
        counted = each.state in (RebuildState.COUNTING, RebuildState.FINISHED) and not each.waits
        note = f"{each.lines:,} lines" if counted else each.progress
        wrong = f"{each.failure}; it is tried again" if each.failure else ""
        asked = each.requested_at, each.requested_by
        done, ended = (len(each.done_days), len(each.days)), each.state == RebuildState.FINISHED
        return cls(what, days, each.state, note, wrong, *done, *asked, ended)


class NoDays(ValueError):
    """A form does not name its days."""


class DaysForm(NamedTuple):
    """The days of a form as they were filled in, and what is wrong with them."""

    first: str = ""
    last: str = ""
    wrong: str = ""

    @classmethod
    def of(cls, given: Form) -> DaysForm:
        return cls(given.get("first"), given.get("last"))

    @property
    def parsed(self) -> tuple[date | None, date | None]:
        """The first and the last day; None where one is left empty. Raises NoDays."""
        try:
            first, last = (date.fromisoformat(text) if text else None for text in (self.first, self.last))
        except ValueError:
            raise NoDays("Name days like 2015-05-17, or none.") from None
        return first, last
