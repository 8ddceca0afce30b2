"""A mover: plans are carried out in threads, while whoever began them looks on.

Units that must start, as those of a host that is gone, start side by side, but only one of a group at a time.
Moves that even hosts out come one after another, and no unit that must start waits for them, unless it is of
the same group.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain, takewhile

import sqlalchemy as sa
from filelock import FileLock, Timeout

from sluice.placement.base import Move
from sluice.runtime.settings import Settings
from sluice.storage.tables import alerts
from sluice.storage.tables import units as book
from sluice_hosts.units.carrying import (
    ALERTS,
    MOVES,
    NOT_MOVED,
    SOURCE,
    CarriedJob,
    Carrier,
    MoveFailed,
    said,
    unfailing,
)
from sluice_hosts.units.kinds import Kind, Log
from sluice_hosts.units.proposals import Proposal, propose
from sluice_hosts.units.view import HostState, View, view

UNKNOWN = "what is to move next is not known yet"


class PlacementBusy(RuntimeError):
    """Another process carries a plan out."""


@contextlib.contextmanager
def locked(settings: Settings) -> Iterator[None]:
    """The placement's lock, which the deployment's is not: a mover takes that one. Raises PlacementBusy."""
    path = settings.home / "run" / "placement.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(path, thread_local=False).acquire(timeout=0)  # another thread may give it up
    except Timeout as error:
        raise PlacementBusy(f"another process moves units: wait until it gives up {path}") from error
    with held:
        yield


class Mover:
    """Carries plans out, and holds the placement's lock as long as a move is at work.

    Its threads end with the process; a move that is at work is then broken off. arrived: all moves that did.
    """

    def __init__(
        self, settings: Settings, database: sa.Engine, kinds: Sequence[Kind], since: datetime | None = None
    ) -> None:
        self._settings, self._database, self._kinds, self._since = settings, database, kinds, since
        self._carrier = Carrier(settings, database, kinds)
        self._stopped = threading.Event()
        self._guard = threading.Condition()  # of all that follows
        self._hold: contextlib.ExitStack | None = None  # the placement's lock
        self._at_work: dict[int, CarriedJob] = {}
        self._evens, self._round = False, 0  # what evens out ends before its next move in another round
        self._states: dict[str, str] = {}
        self._failed: dict[str, MoveFailed] = {}
        self._left: set[str] = set()  # units that somebody else moves, until the next regular plan
        self._killed: BaseException | None = None
        self.arrived: list[Move] = []

    @property
    def failed(self) -> list[MoveFailed]:
        """The last failure of each unit that has not moved since, by the units' names."""
        with self._guard:
            return [self._failed[unit] for unit in sorted(self._failed)]

    def begin(self, log: Log, *, even: bool = True, again: bool = False) -> bool:
        """Plan, and begin what can begin now; returns whether anything did. Waits for no move.

        again: leave out what is only possible on an avoided host. Raises PlacementBusy, and as `view` does.
        """
        log = unfailing(log)
        with self._guard:
            if self._stopped.is_set():
                return False
            if self._hold is None:
                with contextlib.ExitStack() as stack:
                    stack.enter_context(locked(self._settings))
                    self._hold = stack.pop_all()
            try:
                return self._plan(log, even, again)
            finally:
                self._rest()

    def stop(self) -> None:
        """Begin nothing any more. A move that is at work ends by itself. Waits for nothing."""
        self._stopped.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing is at work, at most `seconds`; returns whether nothing is."""
        with self._guard:
            rests = self._guard.wait_for(lambda: not self._busy, seconds)
            if self._killed is not None:
                raise self._killed
            return rests

    @property
    def _busy(self) -> bool:
        return self._evens or bool(self._at_work)

    def _rest(self) -> None:
        """Give the placement's lock up if nothing is at work."""
        if self._hold is not None and not self._busy:
            self._hold.close()
            self._hold = None
        self._guard.notify_all()

    def _plan(self, log: Log, even: bool, again: bool) -> bool:
        begun = self._resume(log)
        even = even and not self._busy
        proposal = propose(self._settings, self._database, self._kinds, even, self._since)
        if not again:
            self._left.clear()
            self._carrier.record(proposal)
        states = {host.name: str(host.state) for host in proposal.view.hosts}
        self._round, self._states = self._round + (states != self._states), states
        steps = proposal.plan.steps
        for move in (move for move in (steps[0] if steps else ()) if move.source is None):
            if self._may_begin(move.unit, proposal.view) and not (again and proposal.resort(move)):
                begun |= self._replace(log, self._carrier.book(move, proposal))
        moves = list(takewhile(lambda move: move.source is not None, chain.from_iterable(steps)))
        moves = [move for move in moves if move.unit not in self._left]
        if even and moves and not self._busy and not self._stopped.is_set():
            self._evens = begun = True
            _thread(self._even_out, log, moves, proposal, self._round)
        self._tell(proposal, again)
        return begun

    def _may_begin(self, unit: str, seen: View) -> bool:
        """Whether the unit may move now: while nobody moves it or another of its group, and before `stop`."""
        if self._stopped.is_set() or unit in self._left:  # it may be stopped while it was planned
            return False
        groups = {each.running.name: each.running.group for each in seen.units}
        moving, group = [job.unit for job in self._at_work.values()], groups.get(unit)
        return unit not in moving and (group is None or group not in map(groups.get, moving))

    def _resume(self, log: Log) -> bool:
        """Repeat moves that were broken off, if their targets still take units."""
        with self._database.connect() as connection:
            rows = [row for row in book.open_moves(connection) if row.id not in self._at_work]
        if not rows:
            return False
        seen = view(self._settings, self._database, self._kinds)
        movable = {each.running.name for each in seen.units if each.running.movable}
        begun = False
        for row in rows:
            target = seen.states.get(row.target)
            if row.unit not in movable or target is None or target.state != HostState.OPEN:
                log(f"{row.unit}: its move to {row.target} was broken off and is given up")
                self._carrier.give_up(row)
            elif self._may_begin(row.unit, seen):
                log(f"{row.unit}: its move to {row.target} was broken off and goes on")
                begun |= self._replace(log, CarriedJob.of(row))
        return begun

    def _replace(self, log: Log, job: CarriedJob | None) -> bool:
        """Begin one move, beside others."""
        if job is None:
            return False

        def work(job: CarriedJob) -> None:
            self._carry(log, job)
            with self._guard:  # nobody sees that nothing moves before it is known what moves next
                del self._at_work[job.number]
                self._next(log)

        self._round += 1
        self._at_work[job.number] = job
        _thread(work, job)
        return True

    def _even_out(self, log: Log, moves: Sequence[Move], proposal: Proposal, number: int) -> None:
        """Do one move after the other, until one fails or another round begins."""
        try:
            for move in moves:
                with self._guard:
                    current = self._round == number and not self._stopped.is_set()
                    job = self._carrier.book(move, proposal) if current else None
                    if job is None:
                        break
                    self._at_work[job.number] = job
                arrived = self._carry(log, job)
                with self._guard:
                    del self._at_work[job.number]
                if not arrived:
                    break
        except Exception as error:
            log(f"hosts are not evened out: {said(error)}")
        finally:
            with self._guard:
                self._evens = False
                self._next(log)

    def _carry(self, log: Log, job: CarriedJob) -> bool:
        """Do one move; whether it arrived."""
        try:
            if not self._carrier.carry(job, log):
                with self._guard:
                    self._left.add(job.unit)
                return False
        except MoveFailed as failed:
            log(str(failed))
            with self._guard:
                self._failed[job.unit] = failed
        except Exception as error:
            log(f"{job.unit}: the end of its move is not recorded, so it is repeated: {said(error)}")
        except BaseException as error:
            self._killed = error
        else:
            with self._guard:
                self._failed.pop(job.unit, None)
                self.arrived.append(job.move)
                return True
        return False

    def _next(self, log: Log) -> None:
        """Begin what waited for a move, or must go elsewhere because one failed. Callers hold the guard."""
        try:
            if self._killed is None and not self._stopped.is_set():
                self._plan(log, even=False, again=True)
        except Exception as error:  # it is planned again on the next beat
            log(f"{UNKNOWN}: {said(error)}")
        finally:
            self._rest()

    def _tell(self, proposal: Proposal, again: bool) -> None:
        """Raise and clear the alerts of all units."""
        if not again:
            self._failed = {unit: each for unit, each in self._failed.items() if _counts(each, proposal)}
        current = {f"{ALERTS}{job.unit} {MOVES}": str(job) for job in self._at_work.values()}
        moving = {job.unit for job in self._at_work.values()}
        for unit, each in self._failed.items():
            if unit not in moving:
                current[f"{ALERTS}{unit} {NOT_MOVED}"] = str(each)
        for lost in proposal.plan.unplaced:
            current[f"{ALERTS}{lost.unit} has no place"] = f"{lost.unit} has no place: {lost.why}"
        alerts.sync(self._database, SOURCE, current, prefix=ALERTS)


def _counts(failed: MoveFailed, proposal: Proposal) -> bool:
    """Whether a failure is still worth an alert: the unit has to go, or is left where it is because of it."""
    plan = proposal.plan
    due = {move.unit for move in plan.starts} | {each.unit for each in plan.unplaced}
    return failed.unit in due or (failed.evens and proposal.view.failed.of(failed.unit) is not None)


def _thread(work: Callable[..., None], *arguments: object) -> None:
    run = contextvars.copy_context().run  # Airflow knows by it whose log is written
    threading.Thread(target=run, args=(work, *arguments), name="mover", daemon=True).start()
