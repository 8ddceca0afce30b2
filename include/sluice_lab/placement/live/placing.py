"""The DAG `placement` in the laboratory: the watch that its trigger runs, without Airflow.

The trigger (`plugins/sluice_airflow/placement.py`) has a `units.watch.UnitWatch` look on a beat, and does
nothing else. So does `Placing`. What is measured, planned and moved, and when, is the product's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

import sqlalchemy as sa

from sluice.collection import deploy
from sluice.runtime.settings import Settings
from sluice.storage.tables.schema import unit_loads, unit_moves
from sluice_hosts import hosts
from sluice_hosts.units import measure
from sluice_hosts.units.agents import Collectors
from sluice_hosts.units.catalogue import KINDS
from sluice_hosts.units.kinds import Kind
from sluice_hosts.units.proposals import propose
from sluice_hosts.units.watch import UnitWatch
from sluice_lab.placement.live import watching
from sluice_lab.placement.live.watching import Taken
from sluice_lab.processes import LaboratoryFailed

#: Loads are known after a minute or two, and a move takes seconds.
MOST_SECONDS = 600.0
_LOOK_SECONDS = 0.2

Log = Callable[[str], None]


@dataclass(frozen=True)
class Moved:
    """One move: from its order until the agent is ready there. began, ended: seconds since the epoch."""

    unit: str
    source: str
    target: str
    began: float
    ended: float
    taken: Taken


class Timed(Collectors):
    """Collectors, moved as ever; of each move is noted when it was, and how long the unit took nothing."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str, str, float, float, watching.MoveObserver]] = []

    def move(self, settings: Settings, unit: str, host: str, log: Log) -> None:
        there, name = hosts.load(settings), unit.partition(":")[2]
        agent = deploy.agent(settings, name)
        addresses = there[agent.runs_on].address, there[host].address
        watch, began = watching.MoveObserver(agent.metrics_port, *addresses), time.time()
        super().move(settings, unit, host, log)
        if agent.runs_on != host:
            self._found.append((name, agent.runs_on, host, began, time.time(), watch))

    def moved(self) -> list[Moved]:
        """All moves that arrived, when each unit takes blocks again or was given up."""
        return [
            Moved(unit, source, target, began, ended, watch.done())
            for unit, source, target, began, ended, watch in self._found
        ]


def with_timed(timed: Timed) -> tuple[Kind, ...]:
    """The kinds of units that the DAG has, collectors among them as these ones."""
    return tuple(timed if kind.name == timed.name else kind for kind in KINDS)


class Placing:
    """The DAG, unpaused on entry and paused on exit; nothing is at work then. settings: the instance's."""

    def __init__(self, settings: Settings, database: sa.Engine, kinds: Sequence[Kind], log: Log) -> None:
        self._settings, self._database, self._kinds, self._log = settings, database, kinds, log
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="placement")

    def __enter__(self) -> Placing:
        self._watch = UnitWatch(self._settings, self._database, self._kinds)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._watch.stop()
        self._thread.join()
        self._watch.mover.wait()

    def settle(self, seconds: float = MOST_SECONDS) -> None:
        """Wait until units have moved, and would not move if it were planned now.

        Raises LaboratoryFailed if that is not so in time.
        """
        deadline = time.monotonic() + seconds
        while not self._rests():
            if time.monotonic() > deadline:
                raise LaboratoryFailed(f"after {seconds:g} s the placement has moved nothing, or moves on")
            time.sleep(_LOOK_SECONDS)

    def _rests(self) -> bool:
        mover = self._watch.mover
        if not mover.arrived or not mover.wait(0):
            return False
        return not propose(self._settings, self._database, self._kinds).plan.steps

    def _run(self) -> None:
        while not self._ended.is_set():
            self._watch.beat(self._log)
            self._ended.wait(self._settings.placement.beat_seconds)


def prepare(settings: Settings, database: sa.Engine, kinds: Sequence[Kind]) -> None:
    """Look once, so that the hosts' speeds are known, and forget loads and moves of what ran before."""
    measure.look(settings, database, kinds)
    with database.begin() as connection:
        for table in (unit_loads, unit_moves):
            connection.execute(sa.delete(table))
