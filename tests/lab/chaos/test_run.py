"""The order of faults and waits, and a report that is whole whatever fails. `session` and `__main__` need a
platform."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice_lab.chaos import run
from sluice_lab.chaos.draws import DrawnFault, FaultKind
from sluice_lab.chaos.faults import DoneFault, NothingToHit
from sluice_lab.chaos.front_ends import log_file
from sluice_lab.chaos.parts import PartHealth
from sluice_lab.chaos.recovery import RecoveryWatch
from sluice_lab.chaos.report import ChaosReport, FaultRecord
from sluice_lab.chaos.run import ChaosPlan, NoFaultPossible, NotRecovered

DAY = ChaosPlan(1, 1).days[0]


def fault(part: str, *, overlaps: bool = False) -> DrawnFault:
    return DrawnFault(FaultKind.KILL, part, 0.0, 0.0, overlaps, 1)


class FakePlatform:
    """Its parts work again a moment after each fault, or never."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.hit: list[tuple[str, list[str]]] = []  # the part, and what did not work at that moment
        self._until: dict[str, float] = {}

    def look(self) -> dict[str, PartHealth]:
        now = time.monotonic()
        return {
            part: PartHealth(2, "" if now > self._until.get(part, 0) else "away")
            for part in ("kafka", "watch")
        }

    def carry(self, drawn: DrawnFault) -> DoneFault:
        self.hit.append((drawn.part, [name for name, each in self.look().items() if each.problem]))
        self._until[drawn.part] = time.monotonic() + self.seconds
        return DoneFault(frozenset({1}), time.time())


@pytest.mark.slow
def test_a_fault_waits_for_the_recovery_unless_it_overlaps() -> None:
    platform, said = FakePlatform(0.3), []
    drawn = [fault("kafka"), fault("watch", overlaps=True), fault("kafka"), fault("watch")]
    with RecoveryWatch(platform.look, look_seconds=0.02) as watch:
        run.happen(drawn, watch, platform.carry, said.append, sleep=lambda _: None)
    assert platform.hit == [("kafka", []), ("watch", ["kafka"]), ("kafka", []), ("watch", [])]
    assert [each.overlapped for each in watch.recoveries] == [True, False, False, False]
    assert all(each.over for each in watch.recoveries)
    assert said[0] == "1 of 4: kill of kafka"


@pytest.mark.slow
def test_no_more_faults_happen_to_a_platform_that_does_not_recover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "RECOVER_SECONDS", 0.3)
    platform = FakePlatform(60)
    with (
        RecoveryWatch(platform.look, look_seconds=0.02) as watch,
        pytest.raises(NotRecovered, match="kafka: away"),
    ):
        run.happen([fault("kafka"), fault("watch")], watch, platform.carry, print, sleep=lambda _: None)
    assert [part for part, _ in platform.hit] == ["kafka"]


def test_kinds_that_cannot_happen_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = Settings(instance="dev", home=tmp_path, network="private")
    plan = ChaosPlan(1, 1, kinds=(FaultKind.PARTITION,))
    with pytest.raises(NoFaultPossible, match="partition cannot happen here: there is no nft"):
        run.run(settings, plan, lambda _: [], print)


@pytest.mark.slow
def test_the_report_is_whole_although_everything_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an instance that does not run: no part has a process, and nothing can be drained or compared."""

    def no_process(*_: object, **__: object) -> DoneFault:
        raise NothingToHit("kafka")

    monkeypatch.setattr(run, "carry_out", no_process)
    monkeypatch.setattr(run, "DRAIN_SECONDS", 0.1)
    monkeypatch.setattr(run, "QUIET_SECONDS", 0.5)
    settings = Settings(instance="dev", home=tmp_path)
    log = log_file(tmp_path, "web1", DAY)
    log.parent.mkdir(parents=True)
    log.touch()
    plan = ChaosPlan(2, 1, kinds=(FaultKind.KILL,))
    report = run.run(settings, plan, lambda _: ["the night failed"], print)
    said = "\n".join(report.problems)
    assert not report.ok
    for words in ("kafka had no process", "drain: TimeoutError", "verify the archive", "the night failed",
                  "compare with the files"):  # fmt: skip
        assert words in said


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_it_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> DoneFault:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "carry_out", interrupted)
    kept: list[ChaosReport] = []
    plan = ChaosPlan(2, 1, kinds=(FaultKind.KILL,))
    with pytest.raises(KeyboardInterrupt):
        run.run(Settings(instance="dev", home=tmp_path), plan, lambda _: [], print, kept.append)
    assert [report.problems for report in kept] == [["the run was interrupted (KeyboardInterrupt)"]]
    assert kept[0].lines > 0
    assert not {"recovery", "front-ends"} & {each.name for each in threading.enumerate()}


def test_pairs_can_be_left_out() -> None:
    possible = {FaultKind.KILL: ["kafka", "watch"], FaultKind.POWER_CUT: ["kafka"]}

    def without(*pairs: tuple[FaultKind, str]) -> dict[FaultKind, list[str]]:
        return run.chosen(ChaosPlan(1, 1, without=frozenset(pairs)), possible)

    assert without() == possible
    assert without((FaultKind.POWER_CUT, "kafka"), (FaultKind.STOP, "x")) == {
        **possible,
        FaultKind.POWER_CUT: [],
    }
    with pytest.raises(NoFaultPossible, match=r"power cut:watch: there is no such fault; .* happen to kafka"):
        without((FaultKind.POWER_CUT, "watch"))
    with pytest.raises(NoFaultPossible, match="leave no fault"):
        without(*((kind, part) for kind, parts in possible.items() for part in parts))


def test_lines_may_lack_only_after_kafka_lost_bytes() -> None:
    def record(kind: FaultKind, part: str, cut: dict[str, int]) -> FaultRecord:
        return FaultRecord(kind, part, "", 0, False, 1, 1, cut)

    def after(*records: FaultRecord) -> bool:
        return run.kafka_lost_bytes(ChaosReport(1, 1, 1, faults=list(records)))

    assert not after(record(FaultKind.KILL, "kafka", {}), record(FaultKind.POWER_CUT, "kafka", {}))
    assert not after(record(FaultKind.POWER_CUT, "datanode", {"a": 1}))
    assert after(record(FaultKind.POWER_CUT, "kafka", {"a": 1}))
