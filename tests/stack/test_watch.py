"""Only sick daemons are restarted: once healthy, long sick, and not because of another one."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from types import SimpleNamespace

import psutil
import pytest

from sluice.runtime.settings import Settings
from sluice.stack import entry, supervisord, watch
from sluice.stack.catalogue import DAEMONS
from sluice.stack.health import NO_REGION_SERVER
from sluice.stack.watch import DaemonWatch
from sluice_lab.waiting import until
from tests.stack.file_systems import FakeDisks

PATIENCE = 3


class Stack:
    """The states that supervisord and the daemons report."""

    def __init__(self) -> None:
        self.sick: set[str] = set()
        self.problem = "no answer"
        self.pids: dict[str, int] = {}
        self.states: dict[str, str] = {}

    def programs(self, settings: Settings) -> dict[str, SimpleNamespace]:
        return {
            name: SimpleNamespace(state=self.states.get(name, "RUNNING"), pid=self.pids.get(name, 1))
            for name in ("postgres", "namenode", "datanode", "hbase")
        }

    def check(self, settings: Settings, name: str) -> str | None:
        return self.problem if name in self.sick else None


@pytest.fixture
def stack_of_four(monkeypatch: pytest.MonkeyPatch) -> Stack:
    double = Stack()
    monkeypatch.setattr(supervisord, "programs", double.programs)
    monkeypatch.setattr(watch, "check", double.check)
    return double


@pytest.fixture
def watching(stack_of_four: Stack) -> DaemonWatch:
    made = DaemonWatch(Settings(instance="test"), lambda text: None, PATIENCE)
    assert made.look() == {}
    return made


def looks(watching: DaemonWatch, count: int) -> list[dict[str, str]]:
    return [watching.look() for _ in range(count)]


def test_it_is_restarted_once_patience_is_over(stack_of_four: Stack, watching: DaemonWatch) -> None:
    stack_of_four.sick = {"hbase"}
    assert looks(watching, PATIENCE) == [{}, {}, {"hbase": "no answer"}]


def test_a_daemon_that_lost_a_part_for_good_is_restarted_sooner(
    stack_of_four: Stack, watching: DaemonWatch
) -> None:
    stack_of_four.sick, stack_of_four.problem = {"hbase"}, NO_REGION_SERVER
    assert looks(watching, 2) == [{}, {"hbase": NO_REGION_SERVER}]


def test_one_good_answer_is_enough_to_stay(stack_of_four: Stack, watching: DaemonWatch) -> None:
    for _ in range(3):
        stack_of_four.sick = {"hbase"}
        assert looks(watching, PATIENCE - 1) == [{}, {}]
        stack_of_four.sick = set()
        assert watching.look() == {}


def test_a_daemon_that_waits_for_a_sick_one_is_not_to_blame(
    stack_of_four: Stack, watching: DaemonWatch
) -> None:
    stack_of_four.sick = {"datanode", "hbase"}
    assert looks(watching, PATIENCE)[-1] == {"datanode": "no answer"}
    stack_of_four.sick = {"hbase"}
    assert looks(watching, PATIENCE)[-1] == {"hbase": "no answer"}


def test_a_new_process_starts_again_and_must_be_healthy_first(
    stack_of_four: Stack, watching: DaemonWatch
) -> None:
    stack_of_four.sick, stack_of_four.pids = {"hbase"}, {"hbase": 2}
    assert looks(watching, 3 * PATIENCE) == [{}] * 3 * PATIENCE
    stack_of_four.sick = set()
    watching.look()
    stack_of_four.sick = {"hbase"}
    assert looks(watching, PATIENCE)[-1] == {"hbase": "no answer"}


def test_a_stopped_daemon_stays_stopped(stack_of_four: Stack, watching: DaemonWatch) -> None:
    stack_of_four.sick, stack_of_four.states = {"hbase"}, {"hbase": "STOPPED"}
    assert looks(watching, PATIENCE) == [{}] * PATIENCE


def test_a_daemon_is_not_restarted_while_its_disk_is_full_but_once_there_is_space(
    stack_of_four: Stack, watching: DaemonWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = FakeDisks(monkeypatch)
    stack_of_four.sick = {"datanode", "hbase"}
    stack_of_four.pids = {"datanode": 2, "hbase": 2}  # they were started meanwhile, and were never healthy
    found.are(home=50, datanode=0.1)
    assert looks(watching, 2 * PATIENCE) == [{}] * 2 * PATIENCE
    found.are(home=50, datanode=50)
    assert looks(watching, PATIENCE)[-1] == {"datanode": "no answer"}
    stack_of_four.sick = {"hbase"}
    assert looks(watching, PATIENCE)[-1] == {"hbase": "no answer"}


def test_a_datanode_whose_disk_was_full_is_restarted_once_there_is_space(
    stack_of_four: Stack, watching: DaemonWatch
) -> None:
    told = iter([{"data/datanode", "data/kafka"}, set[str](), {"home"}])
    watching.emptied = lambda: next(told)
    assert [list(each) for each in looks(watching, 3)] == [["datanode"], [], []]


def test_what_supervisord_gave_up_is_started_again_after_a_minute(
    stack_of_four: Stack, watching: DaemonWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, now = list[str](), time.time()
    monkeypatch.setattr(supervisord, "start_program", lambda settings, name: started.append(name))

    def programs(settings: Settings) -> dict[str, SimpleNamespace]:
        states = {"kafka": ("FATAL", now - 30), "postgres": ("FATAL", now - 90), "hbase": ("STOPPED", 0)}
        return {
            name: SimpleNamespace(name=name, state=state, pid=0, ended=ended)
            for name, (state, ended) in states.items()
        }

    monkeypatch.setattr(supervisord, "programs", programs)
    watching.round()
    assert started == ["postgres"]


def test_without_supervisord_it_says_how_the_daemons_are_and_restarts_none(
    stack_of_four: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisord, "programs", pytest.fail)
    monkeypatch.setattr(supervisord, "stop_program", pytest.fail)
    monkeypatch.setattr(watch.notify, "forget", lambda settings: None)  # PostgreSQL is not there
    monkeypatch.setattr(watch, "SECONDS", 0)
    stack_of_four.sick = {"hbase"}
    found: list[dict[str, str]] = []

    def looked(problems: Mapping[str, str]) -> None:
        found.append(dict(problems))
        if len(found) > 3 * PATIENCE:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch.run(Settings(instance="test"), pytest.fail, looked, restarts=False)
    assert found == [{name: "no answer" if name == "hbase" else "" for name in DAEMONS}] * len(found)


@pytest.mark.e2e
def test_a_daemon_that_hangs_is_restarted(stack: Settings) -> None:
    said: list[str] = []
    name, watching = "hbase-thrift", DaemonWatch(stack, said.append, PATIENCE)

    def known() -> bool:
        """Whether it was seen healthy, which it is only once supervisord calls it running."""
        assert watching.look() == {}
        return name in watching.seen and watching.seen[name].was_healthy

    until(known, what=f"{name} is healthy")
    hanging = supervisord.programs(stack)[name].pid
    psutil.Process(hanging).send_signal(signal.SIGSTOP)
    found: dict[str, str] = {}

    def lost() -> bool:
        """Whether it was found sick; that takes more looks if HBase itself misses one of them."""
        found.update(watching.look())
        return bool(found)

    until(lost, 120, f"{name} is found to be sick")
    assert list(found) == [name]
    watching.restart(*found.popitem())
    assert said[0].startswith("hbase-thrift runs but is unhealthy")
    assert not psutil.pid_exists(hanging)
    until(lambda: entry.check(stack, name) is None, 120, f"{name} is healthy again")
