"""Makes one fault happen. What it stopped or cut off goes on afterwards, also if it is interrupted."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psutil

from sluice.runtime import holds
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice_lab.chaos import full_disk, packet_loss, parts, slow_disk, unsynced, wrong_clock
from sluice_lab.chaos.draws import CUT_BYTES, DrawnFault, FaultKind
from sluice_lab.chaos.file_systems import FOLDERS
from sluice_lab.chaos.parts import ChaosPart
from sluice_lab.chaos.stores import STORES
from sluice_lab.waiting import until

#: A part may still be coming back from the fault before.
START_SECONDS = 300.0
#: Some parts do not work with a wrong clock.
CLOCK_START_SECONDS = 20.0
GONE_SECONDS, GONE_POLL_SECONDS = 30.0, 0.005

Sleep = Callable[[float], None]


class NothingToHit(TimeoutError):
    """The part has no process."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} had no process for {START_SECONDS:.0f} s")


class IntakeGoesOn(TimeoutError):
    """A disk is nearly full, and lines are taken all the same."""


@dataclass
class DoneFault:
    """What was done. ended: when the part could begin to recover (Unix time).

    killed: the pids that must be others before the part has recovered. cut: bytes by file, below the home.
    """

    killed: frozenset[int] = frozenset()
    ended: float = 0.0
    cut: dict[str, int] = field(default_factory=dict)


def carry_out(
    settings: Settings, fault: DrawnFault, known: Mapping[str, ChaosPart], sleep: Sleep = time.sleep
) -> DoneFault:
    """Make the fault happen, and return once it is over. Raises NothingToHit, RuleRefused, IntakeGoesOn."""
    done = DoneFault()
    match fault.kind:
        case FaultKind.KILL:
            done.killed = kill([_process(settings, known[fault.part])])
        case FaultKind.STOP:
            found = parts.family(settings, _process(settings, known[fault.part]))
            with stopped(found):
                sleep(fault.seconds)
        case FaultKind.PARTITION:
            with packet_loss.lost(parts.ports(settings, fault.part), packet_loss.ALL_PERCENT):
                sleep(fault.seconds)
        case FaultKind.SLOW_NETWORK:
            with packet_loss.lost(parts.ports(settings, fault.part), packet_loss.SLOW_PERCENT):
                sleep(fault.seconds)
        case FaultKind.SLOW_DISK:
            with slow_disk.slow(settings.home / FOLDERS[fault.part]):
                sleep(fault.seconds)
        case FaultKind.WRONG_CLOCK:
            done.killed = _under_wrong_clock(settings, fault, known[fault.part], sleep)
        case FaultKind.POWER_CUT:
            roots = [_process(settings, known[name]) for name in STORES[fault.part].killed]
            done.killed = kill([each for root in roots for each in parts.family(settings, root)])
            done.cut = _cut(settings, fault)
        case FaultKind.FULL_DISK:
            with full_disk.filling(settings, fault.part) as fill:
                fill(full_disk.nearly(settings, fault.part))
                _await_hold(settings)
                fill(0)
                sleep(fault.seconds)
    done.ended = time.time()
    return done


def kill(processes: Sequence[psutil.Process]) -> frozenset[int]:
    """SIGKILL, and wait until they are gone; returns their pids.

    It does not wait until supervisord knows, because that starts them again at once.
    """
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    until(lambda: all(map(_gone, processes)), GONE_SECONDS, "killed processes end", GONE_POLL_SECONDS)
    return frozenset(each.pid for each in processes)


def _gone(process: psutil.Process) -> bool:
    """Whether nothing of the process runs, so that its files are closed."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


@contextmanager
def stopped(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """The processes stand still while the block lasts, however it ends."""
    try:
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        yield
    finally:
        for each in reversed(processes):
            with suppress(psutil.NoSuchProcess):
                each.resume()


def _await_hold(settings: Settings) -> None:
    """Wait until intake is held; the watch, which does that, may still be coming back from another fault."""
    try:
        until(lambda: holds.reason(settings.home, Hold.INTAKE), START_SECONDS, "intake is held")
    except TimeoutError as error:
        raise IntakeGoesOn(f"a disk has less than its reserve: {error}") from None


def _process(settings: Settings, part: ChaosPart) -> psutil.Process:
    try:
        return until(lambda: parts.process(settings, part), START_SECONDS, part.name)
    except TimeoutError:
        raise NothingToHit(part.name) from None


def _under_wrong_clock(
    settings: Settings, fault: DrawnFault, part: ChaosPart, sleep: Sleep
) -> frozenset[int]:
    """Returns the pid that the part had with a wrong clock."""
    before = _process(settings, part).pid
    with wrong_clock.wrong(settings, part, wrong_clock.hours(fault.chance)):
        with suppress(TimeoutError):  # it may not work at all, which others must bear as well
            until(lambda: _works(settings, part, before), CLOCK_START_SECONDS, part.name)
        sleep(fault.seconds)
        during = parts.process(settings, part)
    return frozenset({during.pid} if during else ())


def _works(settings: Settings, part: ChaosPart, before: int) -> bool:
    health = parts.look(settings, [part])[part.name]
    return not health.problem and health.pid != before


def _cut(settings: Settings, fault: DrawnFault) -> dict[str, int]:
    """Take from each file of the store what was drawn, as far as it was not on the disk."""
    dice, taken = random.Random(fault.chance), {}  # noqa: S311
    for path in STORES[fault.part].cut_files(settings.home):
        with suppress(FileNotFoundError):
            if number := unsynced.cut(path, dice.randint(*CUT_BYTES)):
                taken[str(path.relative_to(settings.home))] = number
    return taken
