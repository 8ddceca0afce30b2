"""A plan is carried out, one move after the other, within a budget, by one process at a time.

A move is recorded before it begins and after it arrived. One that was broken off, because its process was
killed, is found by the next `apply` and repeated: it has paid for itself already. One that failed is planned
again, from where the unit is then.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from filelock import FileLock, Timeout

from sluice.placement.base import Move, Plan
from sluice.placement.settled import within
from sluice.runtime.settings import Settings
from sluice.storage import alerts
from sluice.storage import units as book
from sluice.storage.units import MoveRow
from sluice.units.kinds import Kind, Log, Running
from sluice.units.view import View, view

SOURCE = "placement"
ALERTS = "unit "
NOT_MOVED = "did not move"


class PlacementBusy(RuntimeError):
    """Another process carries a plan out."""


class MoveFailed(RuntimeError):
    """A unit could not be moved."""

    def __init__(self, unit: str, message: str) -> None:
        super().__init__(f"{message}; it is planned again")
        self.unit = unit


@dataclass(frozen=True)
class Proposal:
    """What would be done now. left: moves that the budget of this hour still allows."""

    view: View
    plan: Plan
    left: int

    def why(self, move: Move) -> str:
        """The reason of a move, for people."""
        return self.view.leaves(self.unit(move.unit)) or move.why

    def unit(self, name: str) -> Running:
        return next(each.running for each in self.view.units if each.running.name == name)

    def source(self, move: Move) -> str:
        """The host that the unit leaves; the plan names none if the host is not open."""
        return move.source or self.view.cluster.placed[move.unit]

    def rows(self) -> Iterator[tuple[int | None, str, str, str | None, str]]:
        """Step, unit, from, to and why of each move; units without a place have neither step nor target."""
        for number, step in enumerate(self.plan.steps, start=1):
            for move in step:
                yield number, move.unit, self.source(move), move.target, self.why(move)
        for each in self.plan.unplaced:
            yield None, each.unit, self.view.cluster.placed[each.unit], None, each.why

    def notes(self) -> Iterator[str]:
        """What else a reader must know: hosts that take no units, and moves that wait."""
        for host in self.view.hosts:
            if host.state in ("away", "waiting", "barred"):
                yield f"host {host.name} {host.why}"
        if not self.view.settled:
            yield "units that can stay do so until it is known whether the silent host is gone"
        if self.plan.waiting:
            yield f"{self.plan.waiting} moves wait; this hour {self.left} more may begin"


def propose(settings: Settings, database: sa.Engine, kinds: Sequence[Kind], even: bool = True) -> Proposal:
    """Plan with what is known now, within what the budget leaves.

    even: also move units that may stay, to even hosts out. That waits while it is not known of a host whether
    it is gone.
    """
    seen = view(settings, database, kinds)
    with database.connect() as connection:
        left = max(0, settings.placement.moves_an_hour - book.counted(connection, seen.at))
    return Proposal(seen, within(seen.cluster, left if even and seen.settled else 0), left)


def apply(
    settings: Settings, database: sa.Engine, kinds: Sequence[Kind], log: Log, even: bool = True
) -> list[Move]:
    """Plan as `propose` does, and do it; returns the moves. Waits for nobody.

    Raises PlacementBusy, and MoveFailed for the first move that fails: after it only units move that cannot
    stay where they are.
    """
    with locked(settings):
        return _Carrier(settings, database, kinds, log).carry_out(even)


@contextlib.contextmanager
def locked(settings: Settings) -> Iterator[None]:
    """The placement's lock, which the deployment's is not: a mover takes that one."""
    path = settings.home / "run" / "placement.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(path).acquire(timeout=0)
    except Timeout as error:
        raise PlacementBusy(f"another process moves units: wait until it gives up {path}") from error
    with held:
        yield


class _Carrier:
    def __init__(self, settings: Settings, database: sa.Engine, kinds: Sequence[Kind], log: Log) -> None:
        self._settings, self._database, self._log = settings, database, log
        self._list = kinds
        self._kinds = {kind.name: kind for kind in kinds}

    def carry_out(self, even: bool) -> list[Move]:
        self._finish()
        proposal = propose(self._settings, self._database, self._list, even)
        self._record(proposal)
        done: list[Move] = []
        failed: list[MoveFailed] = []
        for move in (move for step in proposal.plan.steps for move in step):
            if failed and move.source is not None:
                continue
            try:
                if not self._begin(move, proposal):
                    break
            except MoveFailed as error:
                failed.append(error)
            else:
                done.append(move)
        stuck = {
            f"{ALERTS}{each.unit} has no place": f"{each.unit} has no place: {each.why}"
            for each in proposal.plan.unplaced
        }
        stuck |= {f"{ALERTS}{error.unit} {NOT_MOVED}": str(error) for error in failed}
        alerts.sync(self._database, SOURCE, stuck, prefix=ALERTS)
        if failed:
            raise failed[0]
        return done

    def _record(self, proposal: Proposal) -> None:
        """Record where units go that may not stay where they are, although nothing is wrong with the host."""
        lost: dict[str, dict[str, str]] = {}
        for move in proposal.plan.starts:
            unit = proposal.unit(move.unit)
            host = proposal.view.states.get(unit.host)
            if host is None or host.state == "shut" or unit.role in host.refuses:
                lost.setdefault(unit.kind, {})[unit.name] = move.target
        for kind, hosts in lost.items():
            self._kinds[kind].belong(self._settings, hosts)

    def _finish(self) -> None:
        """Repeat moves that were broken off, if their targets still take units."""
        with self._database.connect() as connection:
            rows = book.open_moves(connection)
        if not rows:
            return
        seen = view(self._settings, self._database, self._list)
        movable = {each.running.name for each in seen.units if each.running.movable}
        for row in rows:
            target = seen.states.get(row.target)
            if row.unit not in movable or target is None or target.state != "open":
                self._log(f"{row.unit}: its move to {row.target} was broken off and is given up")
                self._end(row.id, "it was broken off, and its target takes no units now")
                continue
            self._log(f"{row.unit}: its move to {row.target} was broken off and goes on")
            self._run(row.id, row.unit, row.source, row.target, row.why)

    def _begin(self, move: Move, proposal: Proposal) -> bool:
        """Do one move; False, and nothing is done, if the budget ended meanwhile."""
        source, why = proposal.source(move), proposal.why(move)
        row = {
            "unit": move.unit,
            "source": source,
            "target": move.target,
            "why": why,
            "counts": move.source is not None,
        }
        budget = self._settings.placement.moves_an_hour
        with self._database.begin() as connection:
            number = book.begin(connection, row, datetime.now(UTC), budget)
        if number is None:
            return False
        self._run(number, move.unit, source, move.target, why)
        return True

    def _run(self, number: int, unit: str, source: str, target: str, why: str) -> None:
        said = f"{unit} moves from {source} to {target}: {why}"
        self._log(said)
        self._alert(unit, "moves", said)
        begun = time.monotonic()
        try:
            self._kinds[unit.partition(":")[0]].move(self._settings, unit, target, self._log)
        except Exception as error:
            reason = " ".join((str(error) or type(error).__name__).split())
            self._end(number, reason)
            failed = MoveFailed(unit, f"{unit} could not move from {source} to {target}: {reason}")
            self._alert(unit, NOT_MOVED, str(failed))
            raise failed from error
        self._end(number)
        self._alert(unit)
        self._log(f"{unit} runs on {target}, after {time.monotonic() - begun:.1f} s")

    def _end(self, number: int, error: str = "") -> None:
        with self._database.begin() as connection:
            book.end(connection, number, datetime.now(UTC), error)

    def _alert(self, unit: str, name: str = "", message: str = "") -> None:
        now = {f"{ALERTS}{unit} {name}": message} if name else {}
        alerts.sync(self._database, SOURCE, now, prefix=f"{ALERTS}{unit} ")


def history(database: sa.Engine) -> dict[str, MoveRow]:
    """The last move of each unit that arrived, as far as it is still known."""
    with database.connect() as connection:
        rows = book.last_moves(connection, book.KEPT)
    return {row.unit: row for row in rows if row.ended_at and not row.error}
