"""One run: units are placed, lines come, hosts join, units move."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta

import psutil

from sluice.placement.measures import load_spread
from sluice.placement.migration import MENDED, migrate
from sluice.runtime.settings import Settings
from sluice_hosts.units.catalogue import KINDS
from sluice_lab.placement.computed import PLACERS
from sluice_lab.placement.live import arrivals, scenarios
from sluice_lab.placement.live.arrivals import Account
from sluice_lab.placement.live.bed import TOPIC, Bed, say
from sluice_lab.placement.live.placing import Moved, Placing, Timed, prepare, with_timed
from sluice_lab.placement.live.scenarios import LiveScenario, LiveTimes
from sluice_lab.placement.live.writing import LineWriter
from sluice_lab.placement.live.writing import Times as Written

_FIRST_DAY = date(2016, 1, 1)


@dataclass
class LiveRunLog:
    """Everything that a run said. Times are seconds since the epoch.

    began, joined, settled, ended: of the phases before, during and after the moves. slots: the units'
    processes on each host, before and after. unevenness: max / mean - 1 of the hosts' measured processor
    time, before and after; by_slots: moves that slot counting would have made. busy: processors that other
    programs used in the phase before the moves.
    """

    scenario: LiveScenario
    began: float = 0.0
    joined: float = 0.0
    settled: float = 0.0
    ended: float = 0.0
    slots: list[tuple[int, ...]] = field(default_factory=list)
    unevenness: list[float] = field(default_factory=list)
    loads: list[dict[str, float]] = field(default_factory=list)
    by_slots: int = 0
    busy: float = 0.0
    moves: list[Moved] = field(default_factory=list)
    written: Mapping[str, Written] = field(default_factory=dict)
    account: Account = field(default_factory=lambda: Account({}))


class LiveLaboratory:
    """A bed, ready for one run after another."""

    def __init__(self, bed: Bed) -> None:
        self._bed, self._runs = bed, 0

    def run(self, scenario: LiveScenario, times: LiveTimes) -> LiveRunLog:
        """The scenario, with log files of its own."""
        bed, log = self._bed, LiveRunLog(scenario)
        day = str(_FIRST_DAY + timedelta(days=self._runs))
        self._runs += 1
        first = scenarios.hosts()[: scenario.first]
        settings = bed.settings.model_copy(update={"placement": scenarios.placement(scenario)})
        self._place(scenario, first)
        prepare(settings, bed.database, KINDS)
        bed.list_hosts(first)
        files = {name: bed.log_file(name, day) for name in self._front_ends()}
        begin = arrivals.ends(bed.settings, TOPIC)
        with LineWriter(files, self._rates(scenario)) as writer:
            time.sleep(times.settle)
            if scenario.uneven:
                self._warm(times)
            log.began = time.time()
            log.slots.append(self._slots())
            self._measure(log, times)
            log.joined = time.time()
            bed.list_hosts(scenarios.hosts())
            log.by_slots = len(migrate(bed.cluster(), MENDED).moves)
            log.moves = self._move(settings)
            log.settled = time.time()
            if scenario.uneven:
                self._warm(times)
            self._measure(log, times)
            log.ended = time.time()
            log.slots.append(self._slots())
        log.written = writer.written()
        log.account = arrivals.account(bed.settings, begin, day, log.written)
        return log

    def _place(self, scenario: LiveScenario, first: Sequence[str]) -> None:
        bed = self._bed
        bed.list_hosts(scenarios.hosts())  # units may still be on hosts that are to leave
        wanted = PLACERS[scenario.start](bed.cluster(first).having({}))
        bed.place(wanted)

    def _warm(self, times: LiveTimes) -> None:
        """Wait until no unit's process is young."""
        for unit in scenarios.units():
            age = time.time() - psutil.Process(self._bed.pid(unit)).create_time()
            time.sleep(max(0.0, times.warm - age))

    def _measure(self, log: LiveRunLog, times: LiveTimes) -> None:
        """Let a phase pass; what each unit used, and how uneven that leaves the hosts."""
        pids = {unit: self._bed.pid(unit) for unit in scenarios.units()}
        began, used = time.monotonic(), _used(pids)
        others = self._others()
        time.sleep(times.phase)
        seconds = time.monotonic() - began
        if not log.loads:
            log.busy = max(0.0, (self._others() - others) / seconds)
        loads = {unit: (now - used[unit]) / seconds for unit, now in _used(pids).items()}
        cluster = self._bed.cluster(loads=loads)
        log.loads.append(loads)
        log.unevenness.append(load_spread(cluster, cluster.placed))

    def _move(self, settings: Settings) -> list[Moved]:
        """Unpause the DAG `placement`, and wait until it has nothing more to do."""
        timed = Timed()
        with Placing(settings, self._bed.database, with_timed(timed), say) as placing:
            placing.settle()
        return timed.moved()

    def _slots(self) -> tuple[int, ...]:
        return tuple(self._bed.running().values())

    def _front_ends(self) -> list[str]:
        return [scenarios.front_end(unit) for unit in scenarios.units()]

    def _rates(self, scenario: LiveScenario) -> Mapping[str, float]:
        if not scenario.uneven:
            return dict.fromkeys(self._front_ends(), scenarios.RATE)
        quiet = dict.fromkeys(self._front_ends(), scenarios.QUIET)
        return quiet | {scenarios.front_end(scenarios.BUSY_UNIT): scenarios.BUSY}

    def _others(self) -> float:
        """The processor seconds of all programs of the machine but the laboratory's."""
        of_all, own = psutil.cpu_times(), 0.0
        for process in self._bed.processes():
            with suppress(psutil.NoSuchProcess):  # it has just ended
                times = process.cpu_times()
                own += times.user + times.system
        return float(of_all.user + of_all.nice + of_all.system - own)


def _used(pids: Mapping[str, int]) -> dict[str, float]:
    """The processor seconds of each process."""
    found = {unit: psutil.Process(pid).cpu_times() for unit, pid in pids.items()}
    return {unit: float(times.user + times.system) for unit, times in found.items()}
