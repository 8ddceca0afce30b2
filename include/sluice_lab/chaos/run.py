"""A chaos run on a platform that is up: faults while lines come, then the account of every line."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sluice.archive import repair
from sluice.archive.verification import NotArchived
from sluice.results.layer_results import ResultLayer
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import open_losses
from sluice_lab.chaos import file_systems, packet_loss, parts, truth, unsynced, wrong_clock
from sluice_lab.chaos.draws import OF_DISK, OF_NETWORK, USUAL, DrawnFault, FaultKind, draws
from sluice_lab.chaos.faults import DoneFault, Sleep, carry_out
from sluice_lab.chaos.front_ends import DAYS, HOSTS, EmulatedFrontEnds, log_file
from sluice_lab.chaos.parts import ChaosPart
from sluice_lab.chaos.recovery import Recovery, RecoveryWatch
from sluice_lab.chaos.report import ChaosReport, records
from sluice_lab.chaos.stores import TOPIC
from sluice_lab.draining import drain

#: The platform has recovered within this, or no more faults happen.
RECOVER_SECONDS = 900.0
DRAIN_SECONDS = 1800.0
#: After the last recovery: who is slow to notice a fault has noticed it then.
QUIET_SECONDS = 15.0

Say = Callable[[str], None]
#: Computes the days as nights do; returns what failed.
Nights = Callable[[Sequence[dt.date]], Iterable[str]]


@dataclass(frozen=True)
class ChaosPlan:
    """What a run does. rate: lines a second."""

    faults: int
    seed: int
    kinds: tuple[FaultKind, ...] = tuple(FaultKind)
    longest: Mapping[FaultKind, float] = field(default_factory=lambda: USUAL)
    rate: float = 60.0
    days: tuple[dt.date, ...] = DAYS
    without: frozenset[tuple[FaultKind, str]] = frozenset()  # pairs of a kind and a part


class NoFaultPossible(ValueError):
    """None of the kinds that were asked for can happen here."""


class NotRecovered(RuntimeError):
    """The platform did not work again in time."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        what = "; ".join(f"{name}: {problem}" for name, problem in sorted(problems.items()))
        super().__init__(
            f"the platform did not recover within {RECOVER_SECONDS:.0f} s: {what or 'it is not known why'}"
        )


def left_out(settings: Settings, kinds: Iterable[FaultKind]) -> dict[FaultKind, str]:
    """Those kinds that cannot happen here, and why."""
    needs: Mapping[FaultKind, Callable[[], str]] = {
        **dict.fromkeys(OF_NETWORK, lambda: packet_loss.why_not(settings)),
        **dict.fromkeys(OF_DISK, lambda: file_systems.why_not(settings)),
        FaultKind.WRONG_CLOCK: wrong_clock.why_not,
        FaultKind.POWER_CUT: lambda: unsynced.why_not(settings.home),
    }
    return {kind: why for kind in kinds if kind in needs and (why := needs[kind]())}


def run(
    settings: Settings,
    plan: ChaosPlan,
    nights: Nights,
    say: Say,
    keep: Callable[[ChaosReport], object] = lambda _: None,
) -> ChaosReport:
    """Do all of a run. Raises NoFaultPossible.

    What goes wrong later is in the report, which then has all that is known. keep: gets it at the end, also
    if the run is interrupted.
    """
    out = left_out(settings, plan.kinds)
    kinds = [kind for kind in plan.kinds if kind not in out]
    for kind, why in out.items():
        say(f"{kind} is left out: {why}")
    if not kinds:
        raise NoFaultPossible("; ".join(f"{kind} cannot happen here: {why}" for kind, why in out.items()))
    known = parts.parts_of(settings)
    drawn = draws(chosen(plan, parts.pairs(settings, known, kinds)), plan.faults, plan.seed, plan.longest)
    report = ChaosReport(
        plan.seed,
        plan.faults,
        plan.rate,
        left_out={str(kind): why for kind, why in out.items()}
        | {f"{kind} of {name}": "as was asked for" for kind, name in sorted(plan.without)},
    )
    begun = time.monotonic()
    try:
        _faults(settings, plan, known, drawn, report=report, say=say)
        report.minutes = round((time.monotonic() - begun) / 60, 1)
        _account(settings, plan.days, report, nights, say)
    except BaseException as ended:  # Ctrl-C or SIGTERM
        report.problems.append(f"the run was interrupted ({type(ended).__name__})")
        raise
    finally:
        keep(report)
    return report


def chosen(plan: ChaosPlan, possible: Mapping[FaultKind, Sequence[str]]) -> dict[FaultKind, list[str]]:
    """The possible pairs without those that the plan leaves out. Raises NoFaultPossible."""
    for kind, name in sorted(plan.without):
        if kind in possible and name not in possible[kind]:
            raise NoFaultPossible(
                f"--without {kind}:{name}: there is no such fault; {kind} can happen to "
                f"{', '.join(possible[kind])}"
            )
    left = {
        kind: [name for name in names if (kind, name) not in plan.without] for kind, names in possible.items()
    }
    if not any(left.values()):
        raise NoFaultPossible("--kinds and --without leave no fault: name more kinds, or leave out less")
    return left


def _faults(
    settings: Settings,
    plan: ChaosPlan,
    known: Sequence[ChaosPart],
    drawn: Sequence[DrawnFault],
    *,
    report: ChaosReport,
    say: Say,
) -> None:
    """Let the faults happen while lines come, until the platform has recovered from the last one."""
    watch = RecoveryWatch(partial(parts.look, settings, known))
    lines = EmulatedFrontEnds(settings.home, plan.rate, plan.seed, plan.days)
    carry = partial(carry_out, settings, known={each.name: each for each in known})
    try:
        with lines, watch:
            happen(drawn, watch, carry, say)
    except Exception as error:  # whatever it is: what was written so far is accounted for
        report.problems.append(f"the faults ended: {error}")
        say(report.problems[-1])
    finally:
        report.faults = records(watch.recoveries, _moment)
        report.lines = lines.written
    if lines.failed:
        report.problems.append(f"the front-ends stopped: {lines.failed}")


def happen(
    drawn: Sequence[DrawnFault],
    watch: RecoveryWatch,
    carry: Callable[[DrawnFault], DoneFault],
    say: Say,
    sleep: Sleep = time.sleep,
) -> None:
    """Let the faults happen one after another, and wait until the platform has recovered from the last.

    Raises NotRecovered, and what `carry` raises.
    """
    for number, fault in enumerate(drawn, 1):
        if not fault.overlaps:
            _recovered(watch)
        sleep(fault.pause)
        for each in watch.recoveries:
            each.overlapped |= not each.over
        lasts = f" for {fault.seconds:g} s" if fault.seconds else ""
        say(f"{number} of {len(drawn)}: {fault.kind} of {fault.part}{lasts}")
        watch.add(Recovery(fault, carry(fault)))
    _recovered(watch)


def _recovered(watch: RecoveryWatch) -> None:
    if not watch.wait(RECOVER_SECONDS):
        raise NotRecovered(watch.problems)


def _account(
    settings: Settings, of_days: Sequence[dt.date], report: ChaosReport, nights: Nights, say: Say
) -> None:
    """Drain, mend the archive, compute the nights, and hold each task's results against the files.

    Each step is tried also if one before it failed.
    """
    days = [day for day in of_days if any(log_file(settings.home, host, day).exists() for host in HOSTS)]
    if not days:
        report.problems.append("no line was written, so there is nothing to compare")
        return

    def step(name: str, do: Callable[[], object]) -> None:
        say(name)
        try:
            do()
        except Exception as error:  # whatever it is: it must not hide what came of the faults
            report.problems.append(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:600]}")
            say(report.problems[-1])

    time.sleep(QUIET_SECONDS)
    # First: an archiver waits for a person where a file that comes before its own cannot be read.
    step("verify the archive", lambda: report.repaired.extend(_repaired(settings)))
    step("drain", lambda: _drain(settings))
    step("verify the archive again", lambda: report.repaired.extend(_repaired(settings)))
    step("compute the nights", lambda: report.problems.extend(nights(days)))
    step("compare with the files", lambda: _compare(settings, days, report))


def _drain(settings: Settings) -> None:
    """Wait until both layers have all lines, and the front-ends have sent again what Kafka lost."""
    database = engine(settings)
    drain(
        settings,
        TOPIC,
        DRAIN_SECONDS,
        good=lambda hops: not hops.disagreements and not open_losses.open_losses(database),
    )


def _repaired(settings: Settings) -> list[str]:
    """What `sluice archive repair` mends. Raises RuntimeError for what it cannot."""
    try:
        found = list(repair.repair(settings, TOPIC))
    except NotArchived:
        return []
    if wrong := [f"partition {each.partition}: {each.why_not}" for each in found if each.why_not]:
        raise RuntimeError("; ".join(wrong))
    return [f"{each.lines:,} lines of partition {each.partition}, from {each.first}" for each in found]


def _compare(settings: Settings, days: Sequence[dt.date], report: ChaosReport) -> None:
    files = [log_file(settings.home, host, day) for host in HOSTS for day in days]
    may_lack = truth.missing_lines(settings, files) if kafka_lost_bytes(report) else {}
    report.unarchived = truth.books(settings).expired
    report.taken = sum(len(begins) for begins in may_lack.values())
    report.verdicts = truth.hold(settings, days, may_lack, ResultLayer)


def kafka_lost_bytes(report: ChaosReport) -> bool:
    """Whether a power cut took bytes of Kafka: only then lines may be gone before a layer had them."""
    cuts = [fault for fault in report.faults if fault.kind == FaultKind.POWER_CUT and fault.cut]
    return any(fault.part == "kafka" for fault in cuts)


def _moment(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="seconds")
