"""One move of a unit: into the book, done, and out of it, with its alert.

A move is recorded before it begins and after it ended. One without an end was broken off, because its process
was killed, and is repeated: it has paid for itself already.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from sluice.placement.base import Move
from sluice.runtime.settings import Settings
from sluice.storage.tables import alerts
from sluice.storage.tables import units as book
from sluice.storage.tables.units import MoveRow
from sluice_hosts.units.kinds import Kind, Log, MovedMeanwhile
from sluice_hosts.units.proposals import Proposal

SOURCE = "placement"
ALERTS = "unit "
MOVES, NOT_MOVED = "moves", "did not move"


class MoveFailed(RuntimeError):
    """A unit could not be moved. evens: it was to even hosts out, so it may stay where it is."""

    def __init__(self, unit: str, message: str, evens: bool = False) -> None:
        super().__init__(f"{message}; it is planned again")
        self.unit, self.evens = unit, evens


@dataclass(frozen=True)
class CarriedJob:
    """A move in the book, by its number there. counts: it evens hosts out, and counts against the budget."""

    number: int
    unit: str
    source: str
    target: str
    why: str
    counts: bool

    @classmethod
    def of(cls, row: MoveRow) -> CarriedJob:
        return cls(row.id, row.unit, row.source, row.target, row.why, row.counts)

    @property
    def move(self) -> Move:
        """As a plan has it: what has to start has no source."""
        return Move(self.unit, self.source if self.counts else None, self.target, self.why)

    def __str__(self) -> str:
        return f"{self.unit} moves from {self.source} to {self.target}: {self.why}"


class Carrier:
    """Does moves, one at each call; different units' at the same time, in different threads."""

    def __init__(self, settings: Settings, database: sa.Engine, kinds: Sequence[Kind]) -> None:
        self._settings, self._database = settings, database
        self._kinds = {kind.name: kind for kind in kinds}

    def book(self, move: Move, proposal: Proposal) -> CarriedJob | None:
        """Record that a move begins; None, and nothing is done, if the budget ended meanwhile."""
        source, why = proposal.source(move), proposal.why(move)
        counts = move.source is not None
        row = {"unit": move.unit, "source": source, "target": move.target, "why": why, "counts": counts}
        budget = self._settings.placement.moves_an_hour
        with self._database.begin() as connection:
            number = book.begin(connection, row, datetime.now(UTC), budget)
        return None if number is None else CarriedJob(number, move.unit, source, move.target, why, counts)

    def carry(self, job: CarriedJob, log: Log) -> bool:
        """Do the move, and record its end; whether the unit arrived, and was not moved by somebody else.

        Raises MoveFailed, and what PostgreSQL raises.
        """
        log(str(job))
        self._alert(job.unit, MOVES, str(job))
        begun = time.monotonic()
        try:
            self._bring(job.unit, job.target, log)
        except MovedMeanwhile as error:
            log(said(error))
            self.end(job.number, book.MOVED_MEANWHILE)
            self._alert(job.unit)
            return False
        except Exception as error:
            why = said(error)
            failed = MoveFailed(
                job.unit, f"{job.unit} could not move from {job.source} to {job.target}: {why}", job.counts
            )
            self._bring_back(job, log)
            self.end(job.number, why)
            self._alert(job.unit, NOT_MOVED, str(failed))
            raise failed from error
        self.end(job.number)
        self._alert(job.unit)
        log(f"{job.unit} runs on {job.target}, after {time.monotonic() - begun:.1f} s")
        return True

    def end(self, number: int, error: str = "") -> None:
        """Record that the move of that number arrived, or failed."""
        with self._database.begin() as connection:
            book.end(connection, number, datetime.now(UTC), error)

    def record(self, proposal: Proposal) -> None:
        """Record where units go that are, or are to be, on hosts that may have them no more."""
        lost: dict[str, dict[str, str]] = {}
        written = {name: kind.written(self._settings) for name, kind in self._kinds.items()}
        for move in proposal.plan.starts:
            unit = proposal.unit(move.unit)
            hosts = {unit.host, written[unit.kind].get(unit.name, unit.host)}
            if not all(proposal.view.takes(unit, host) for host in hosts):
                lost.setdefault(unit.kind, {})[unit.name] = move.target
        for kind, targets in lost.items():
            self._kinds[kind].belong(self._settings, targets)

    def give_up(self, row: MoveRow) -> None:
        """Record that a move that was broken off failed. A unit that may stay belongs where it was, again."""
        kind = self._kinds.get(row.unit.partition(":")[0])  # an older release may have had other kinds
        if kind and row.counts and kind.written(self._settings).get(row.unit) == row.target:
            kind.belong(self._settings, {row.unit: row.source})
        self.end(row.id, "it was broken off, and its target takes no units now")

    def _bring(self, unit: str, host: str, log: Log) -> None:
        self._kinds[unit.partition(":")[0]].move(self._settings, unit, host, log)

    def _bring_back(self, job: CarriedJob, log: Log) -> None:
        """Have a unit that may stay run where it did; or its kind would try for ever to start it there."""
        if not job.counts:
            return
        try:
            if self._kinds[job.unit.partition(":")[0]].written(self._settings).get(job.unit) != job.target:
                return  # nothing was changed, or somebody else moved it since
            self._bring(job.unit, job.source, log)
        except Exception as error:
            log(f"{job.unit}: it is not known to run on {job.source} again: {said(error)}")

    def _alert(self, unit: str, name: str = "", message: str = "") -> None:
        now = {f"{ALERTS}{unit} {name}": message} if name else {}
        alerts.sync(self._database, SOURCE, now, prefix=f"{ALERTS}{unit} ")


def unfailing(log: Log) -> Log:
    """The same log, if nobody may read it any more: that ends no move."""

    def say(line: str) -> None:
        with contextlib.suppress(Exception):
            log(line)

    return say


def said(error: Exception) -> str:
    """What an error says, on one line."""
    return " ".join((str(error) or type(error).__name__).split())
