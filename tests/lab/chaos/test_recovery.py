"""When a part, and the whole platform, has recovered."""

from __future__ import annotations

import time

import pytest

from sluice_lab.chaos.draws import DrawnFault, FaultKind
from sluice_lab.chaos.faults import DoneFault
from sluice_lab.chaos.parts import PartHealth
from sluice_lab.chaos.recovery import Recovery, RecoveryWatch

WORKS, AWAY = PartHealth(2, ""), PartHealth(0, "it does not run")


def fault(part: str = "kafka", kind: FaultKind = FaultKind.KILL) -> DrawnFault:
    return DrawnFault(kind, part, 0.0, 0.0, overlaps=False, chance=1)


def killed(ended: float, *pids: int) -> Recovery:
    return Recovery(fault(), DoneFault(frozenset(pids), ended))


def test_a_part_recovers_before_the_platform() -> None:
    one = killed(time.time() - 5, 1)
    one.judge(time.time(), {"kafka": AWAY, "hbase": WORKS})
    assert one.part_seconds is None
    one.judge(time.time(), {"kafka": WORKS, "hbase": AWAY})
    assert one.part_seconds is not None
    assert not one.over
    one.judge(time.time(), {"kafka": WORKS, "hbase": WORKS})
    assert one.over
    assert 4 < one.part_seconds <= (one.platform_seconds or 0) < 60


def test_a_look_that_began_before_the_end_of_the_fault_says_nothing() -> None:
    one = killed(time.time())
    one.judge(time.time() - 1, {"kafka": WORKS})
    assert one.part_seconds is None


def test_the_killed_process_itself_is_no_recovery() -> None:
    """supervisord may not have noticed its end, and Airflow's heartbeat looks fresh."""
    one = killed(time.time() - 5, 2)
    one.judge(time.time(), {"kafka": WORKS})
    assert one.part_seconds is None


def test_all_that_lost_its_power_is_another_process_before_the_platform_has_recovered() -> None:
    one = killed(time.time() - 5, 1, 7)
    one.judge(time.time(), {"kafka": WORKS, "datanode": PartHealth(7, "")})
    assert one.part_seconds is not None
    assert not one.over


def test_a_job_must_have_said_something_since() -> None:
    ended = time.time() - 5
    one = killed(ended, 1)
    one.judge(time.time(), {"kafka": PartHealth(2, "", said=ended - 1)})
    assert one.part_seconds is None
    one.judge(time.time(), {"kafka": PartHealth(2, "", said=ended + 1)})
    assert one.over


@pytest.mark.slow
def test_the_watch_sees_recoveries_and_survives_a_look_that_fails() -> None:
    answers = [RuntimeError("half there"), {"kafka": AWAY}, {"kafka": WORKS}]

    def look() -> dict[str, PartHealth]:
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        return found

    with RecoveryWatch(look, look_seconds=0.01) as watch:
        assert watch.wait(1)  # nothing happened yet
        watch.add(killed(time.time() - 1, 1))
        assert watch.wait(20)
    assert watch.recoveries[0].over
    assert watch.problems == {}


@pytest.mark.slow
def test_the_watch_says_what_does_not_recover() -> None:
    with RecoveryWatch(lambda: {"kafka": AWAY}, look_seconds=0.01) as watch:
        watch.add(killed(time.time() - 1, 1))
        assert not watch.wait(0.3)
    assert watch.problems == {"kafka": "it does not run"}
