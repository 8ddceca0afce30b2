"""Moves that failed lately: which hosts are avoided for units that move, and which units stay where they are.

Plans are deterministic, so a target that cannot run a unit would be chosen again and again. After a move has
failed, its target is avoided: by this unit, and by the others until a unit arrives there. A unit that failed
to move is not moved to even hosts out. Both hold for ten minutes after the first failure, and twice as long
after each further one whose move began later; moves that fail side by side tell no more than one. Nothing is
forbidden: a unit that must leave its host goes to an avoided one if no other can take it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sluice.storage.tables.units import MOVED_MEANWHILE, MoveRow

FIRST, LONGEST = timedelta(minutes=10), timedelta(hours=6)
_ANY = ""
_SHOWN = 200


@dataclass(frozen=True)
class Failure:
    """The last of moves that failed, one after the other. until: when it is forgotten."""

    unit: str
    target: str
    at: datetime
    error: str
    until: datetime

    def __str__(self) -> str:
        return f"a move of {self.unit} to {self.target} failed at {self.at:%H:%M} UTC ({self.error[:_SHOWN]})"


@dataclass(frozen=True)
class Failures:
    """What is not forgotten yet, by unit and target; "" stands for any."""

    found: Mapping[tuple[str, str], Failure] = field(default_factory=dict)

    def at(self, unit: str, host: str) -> Failure | None:
        """Why the unit is not to move to the host."""
        return self.of(unit, host) or self.found.get((_ANY, host))

    def of(self, unit: str, host: str = _ANY) -> Failure | None:
        """Why the unit itself is not to move there; without a host, to any to even hosts out."""
        return self.found.get((unit, host))

    @property
    def hosts(self) -> list[Failure]:
        """One for each host that all units avoid, by its name."""
        return [failure for (unit, _), failure in sorted(self.found.items()) if unit == _ANY]


def failures(moves: Iterable[MoveRow], at: datetime, since: datetime | None = None) -> Failures:
    """What counts at a time. moves: the last ones. since: earlier failures are forgotten."""
    rows: dict[tuple[str, str], list[MoveRow]] = {}
    for move in sorted(moves, key=_end):  # side by side, a later one may end earlier
        if move.ended_at is None or (since is not None and move.ended_at < since):
            continue
        if move.error == MOVED_MEANWHILE:
            continue
        for key in ((_ANY, move.target), (move.unit, move.target), (move.unit, _ANY)):
            if move.error:
                rows.setdefault(key, []).append(move)
            else:
                rows.pop(key, None)
    found = {key: _failure(failed) for key, failed in rows.items()}
    return Failures({key: failure for key, failure in found.items() if failure.until > at})


def _failure(rows: list[MoveRow]) -> Failure:
    """rows: in the order in which they ended."""
    count, before = 0, datetime.min.replace(tzinfo=UTC)
    for row in rows:
        if row.begun_at >= before:
            count, before = count + 1, _end(row)
    last = rows[-1]
    until = _end(last) + min(FIRST * 2 ** min(count - 1, 16), LONGEST)
    return Failure(last.unit, last.target, _end(last), last.error, until)


def _end(row: MoveRow) -> datetime:
    return row.ended_at or row.begun_at
