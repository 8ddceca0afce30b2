"""A safe mode of the namenode is ended only when no block will be reported any more."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from sluice.runtime.settings import Settings
from sluice.stack import health, safe_mode
from sluice.stack.health import Unhealthy
from sluice.stack.safe_mode import ADMIN_CLASS, OVER, SafeModeExit, newer_bytes, reported

#: As the namenode's source has it.
NEWER = (
    "Safe mode is ON. The reported blocks 56 needs additional 4 blocks to reach the threshold 0.9990 of "
    "total blocks 60.\nThe number of live datanodes 1 has reached the minimum number 0. "
    "Name node detected blocks with generation stamps in future. "
    "This means that Name node metadata is inconsistent. This can happen "
    "if Name node metadata files have been manually replaced. Exiting safe mode will cause loss of 31200 "
    "byte(s). "
    'Please restart name node with right metadata or use "hdfs dfsadmin -safemode forceExit" if you are '
    "certain that the NameNode was started with the correct FsImage and edit logs. If you encountered this "
    "during a rollback, it is safe to exit with -safemode forceExit."
)
SICK = {"namenode": "in safeMode: 60 blocks are being reported"}


class Namenode:
    """What its page says, the clock, and what was asked of it."""

    def __init__(self) -> None:
        self.safe: str | None = "Safe mode is ON. The reported blocks 56 needs additional 4 blocks"
        self.blocks, self.now = 56, 1000.0
        self.asked: list[tuple[str, ...]] = []
        self.answer, self.ends = OVER, 0
        self.alerts: list[str] = []
        self.database = True

    def jmx(self, url: str, bean: str) -> dict[str, Any]:
        if self.safe is None:
            raise Unhealthy("no answer")
        return {"Safemode": self.safe, "LiveNodes": json.dumps({"one": {"numBlocks": self.blocks}})}

    def java(self, settings: Settings, main_class: str, *given: str) -> list[str]:
        self.asked.append((main_class, *given))
        return [sys.executable, "-c", f"print({self.answer!r}); raise SystemExit({self.ends})"]

    def alert(self, message: str) -> None:
        if not self.database:
            raise OperationalError("INSERT", {}, ConnectionError("PostgreSQL is away"))
        self.alerts.append(message)


@pytest.fixture
def namenode(monkeypatch: pytest.MonkeyPatch) -> Namenode:
    made = Namenode()
    monkeypatch.setattr(health, "jmx", made.jmx)
    monkeypatch.setattr(safe_mode, "hadoop_java", made.java)
    monkeypatch.setattr(safe_mode, "require", lambda component: None)
    monkeypatch.setattr(safe_mode, "configure", lambda settings: None)
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    return made


def looks(exit_: SafeModeExit, namenode: Namenode, seconds: int, problems: dict[str, str] = SICK) -> None:
    for _ in range(seconds // 20):
        exit_(problems)
        namenode.now += 20


def test_it_ends_once_nothing_more_comes(namenode: Namenode) -> None:
    said: list[str] = []
    looked = SafeModeExit(Settings(instance="test"), said.append, namenode.alert)
    looks(looked, namenode, 40)
    namenode.safe = "Safe mode is ON. The reported blocks 58 needs additional 2 blocks"
    looks(looked, namenode, 40)
    assert namenode.asked == []
    looks(looked, namenode, 20)
    assert namenode.asked == [(ADMIN_CLASS, "-safemode", "leave")]
    assert "no further block is reported: Safe mode is ON. The reported blocks 58" in said[0]
    namenode.answer, namenode.ends = "Connection refused", 255
    looks(looked, namenode, 60)
    assert said[-1] == "the namenode did not end its safe mode: Connection refused; it is tried again"
    assert namenode.alerts == []


def test_a_safe_mode_that_stays_did_not_end_whatever_dfsadmin_returns(namenode: Namenode) -> None:
    said: list[str] = []
    namenode.answer = "Safe mode is ON"
    looks(SafeModeExit(Settings(instance="test"), said.append, namenode.alert), namenode, 60)
    assert said[-1] == "the namenode did not end its safe mode: Safe mode is ON; it is tried again"


def test_with_blocks_of_forgotten_files_the_exit_is_forced_once_an_alert_is_raised(
    namenode: Namenode,
) -> None:
    said: list[str] = []
    namenode.safe, namenode.blocks, namenode.database = NEWER, 0, False  # its journal lost all that it has
    looked = SafeModeExit(Settings(instance="test"), said.append, namenode.alert)
    looks(looked, namenode, 60)
    assert (namenode.asked, "its alert cannot be raised" in said[-1]) == ([], True)
    namenode.database = True
    looks(looked, namenode, 60)
    assert namenode.asked == []  # a person may stop it
    looks(looked, namenode, 540)
    assert namenode.asked == []
    looks(looked, namenode, 60)
    settings = Settings(instance="test")
    port = settings.port("datanode_ipc")
    report = (ADMIN_CLASS, "-triggerBlockReport", f"{settings.host('datanode')}:{port}")
    assert namenode.asked == [(ADMIN_CLASS, "-safemode", "forceExit"), report]
    assert len(namenode.alerts) == 1
    assert "31,200 bytes of blocks of files that it does not have" in namenode.alerts[0]
    assert newer_bytes(NEWER) == 31_200


def test_it_stays_while_blocks_may_come(namenode: Namenode) -> None:
    looked = SafeModeExit(Settings(instance="test"), print, namenode.alert)
    namenode.blocks = 0  # its disk is not mounted, or it has not reported yet
    looks(looked, namenode, 200)
    namenode.blocks, namenode.safe = 56, None
    looks(looked, namenode, 200)
    namenode.safe = ""
    looks(looked, namenode, 200)
    namenode.safe = "Safe mode is ON."
    looks(looked, namenode, 200, {"namenode": ""})
    SafeModeExit(Settings(instance="test", external=frozenset({"hdfs"})), print, namenode.alert)(SICK)
    assert namenode.asked == []


def test_without_a_datanode_nothing_was_reported() -> None:
    assert reported({"Safemode": "Safe mode is ON. The reported blocks 0 needs additional 4 blocks"}) == ""


@pytest.mark.parametrize("why", ["It was turned on manually.", "Resources are low on NN."])
def test_a_safe_mode_for_another_reason_is_left_alone(namenode: Namenode, why: str) -> None:
    namenode.safe = f"Safe mode is ON. {why}"
    looks(SafeModeExit(Settings(instance="test"), print, namenode.alert), namenode, 200)
    assert namenode.asked == []
