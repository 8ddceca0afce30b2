"""A collector moves between two hosts: exactly, once, after a crash at any step, and from a silent host.

Its program is a stand-in (`tests.collection.stand_in`). `tests/e2e/test_hosts.py` moves a real one.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from sluice.cli import far as shown
from sluice.collection import deploy, deploy_plan, health, ingest_topics, lifecycle
from sluice.collection.agent import LOCAL
from sluice.collection.errors import AgentError
from sluice.collection.hosting import machine_of
from sluice.collection.inventory import InventoryError
from sluice.collection.records import DeployError
from sluice.runtime.settings import ROOT, Settings
from sluice.stack.status import DaemonState
from sluice_hosts import placed
from sluice_hosts.agents import addresses, forgetting, granting, moving, relocation, remnants
from sluice_hosts.agents.forgetting import StillNeeded
from sluice_hosts.agents.moving import MoveError
from sluice_hosts.agents.ssh_machine import SshMachine
from sluice_hosts.emulated import fleet
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.links import ssh
from sluice_hosts.trust import broker
from sluice_lab.ports import free_ports
from sluice_lab.waiting import until
from tests.collection import conftest
from tests.hosts.agents.steps import STEPS, Crash, Side, Step, chosen, crash, struck
from tests.hosts.conftest import quick_hosts
from tests.processes import command_line

pytestmark = pytest.mark.slow

SECONDS = 60.0
ROLES: fleet.Roles = {"h1": ("edge", "collector"), "h2": ("edge", "collector")}
INVENTORY = """
topic: logs
front_ends:
  - {{host: far1, runs_on: h2, metrics_port: {0}, channel: file, files: ["{log}/access.%Y-%m-%d.log"]}}
collectors:
  - {{name: collector1, runs_on: {runs_on}, metrics_port: {1}}}
"""
#: The agent that was started has ended when the keeper asks whether it lives, however slow the machine is.
FLOCK = """case ${4:-} in
true) REAL "$3" true
  read -r pid rest <"${3%lock}state/process"
  while grep -qs ') [^ZX]' "/proc/$pid/stat"; do sleep 0.1; done ;;
*) exec REAL "$@" ;;
esac"""
JAVA = """case $1 in -version) echo 'openjdk version "17.0.9"' ;; *) exec {} {} "$@" ;; esac"""

Hosts = dict[str, EmulatedHost]


@pytest.fixture
def two(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """Two hosts that may have collectors: collector1 runs on h1, and an edge on h2."""
    quick_hosts(tmp_path, monkeypatch)
    monkeypatch.setattr(granting, "grant_rights", granted)
    monkeypatch.setattr(ingest_topics, "make_topics", lambda *_: None)
    made = fleet.build(tmp_path, ROLES)
    try:
        for host in made.values():
            host.program(
                "java", JAVA.format(sys.executable, ROOT / "tests" / "hosts" / "agents" / "stand_in.py")
            )
        fleet.switch_on(settings, made, ROLES)
        fleet.enrol(settings, made)
        write(settings, "placed")
        placed.write(settings, {placed.unit("collector1"): "h1"})
        deploy.apply(settings)
        yield made
    finally:
        for host in made.values():
            host.switch_off()


def granted(settings: Settings, _: object) -> None:
    """Kafka, which is not there, knows each host's user."""
    for host in broker.admitted(settings):
        broker.record(settings, host, ["logs"])


def write(settings: Settings, runs_on: str) -> None:
    ports = settings.home / "ports"  # tests run beside each other
    if not ports.exists():
        ports.write_text(" ".join(map(str, shared_ports())))
    text = INVENTORY.format(*ports.read_text().split(), log=settings.home / "h2" / "log", runs_on=runs_on)
    (settings.home / "collection.yaml").write_text(text)


def shared_ports() -> list[int]:
    """Two that are free on both hosts."""
    ports = free_ports(2, "127.0.1.1")
    try:
        for port in ports:
            socket.create_server(("127.0.1.2", port)).close()
    except OSError:
        return shared_ports()
    return ports


def running(made: Hosts, settings: Settings, agent: str = "collector1") -> dict[str, int]:
    """The process of the agent on each host that has one."""
    found = {}
    for name, host in made.items():
        mark = str(SshMachine(settings, name).files(agent).folder.parent)
        for process in host.processes("python"):
            if any(mark in part for part in command_line(process)):
                assert name not in found, "two processes of one collector on one host"
                found[name] = process.pid
    return found


def state(settings: Settings, host: str, agent: str = "collector1") -> Path:
    return Path(SshMachine(settings, host).files(agent).folder)


def told(settings: Settings) -> str:
    return (state(settings, "h2", "far1") / "collectors").read_text()


def test_it_moves_and_no_edge_is_restarted(settings: Settings, two: Hosts) -> None:
    assert running(two, settings).keys() == {"h1"}
    assert told(settings) == "collector1=127.0.1.1\n"
    edge = running(two, settings, "far1")
    said: list[str] = []
    moving.move(settings, "collector1", "h2", said.append)
    assert running(two, settings).keys() == {"h2"}
    assert (state(settings, "h1") / "clean").exists()
    assert not (state(settings, "h2") / "clean").exists()
    assert told(settings) == "collector1=127.0.1.2\n"
    assert running(two, settings, "far1") == edge
    assert placed.read(settings) == {"collector:collector1": "h2"}
    assert {c.action for c in deploy_plan.plan(settings)} == {"unchanged"}
    before = running(two, settings)
    moving.move(settings, "collector1", "h2")
    assert running(two, settings) == before


def test_what_does_not_drain_is_drained_when_it_can_be(
    settings: Settings, two: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    (state(settings, "h1") / "size").write_text("7")
    said: list[str] = []
    with monkeypatch.context() as impatient:
        impatient.setattr(remnants, "DRAIN_SECONDS", 1.0)
        moving.move(settings, "collector1", "h2", said.append)
    assert "what is in its channel stays on h1 for now" in said[-1]
    assert running(two, settings).keys() == {"h1", "h2"}
    assert told(settings) == "collector1=127.0.1.2\n"
    assert not health.check_all(settings, deploy.agents(settings), {}, {})["collector1"].alerts
    wait_long(settings)
    assert health.check_all(settings, deploy.agents(settings), {}, {})["collector1"].alerts
    (state(settings, "h1") / "size").unlink()
    deploy.ensure(settings)
    assert running(two, settings).keys() == {"h2"}


def wait_long(settings: Settings) -> None:
    """Have what is left on hosts look as if it had been there for an hour."""
    for path in (settings.home / "flume").glob("*/left/*.json"):
        os.utime(path, (0, 0))


def test_one_that_does_not_start_at_the_new_host_goes_on_where_it_is(
    settings: Settings, two: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = running(two, settings)
    two["h2"].program("java", "exit 1")
    two["h2"].program("flock", FLOCK.replace("REAL", str(shutil.which("flock"))))
    with pytest.raises(AgentError, match="the agent ended at once"):
        moving.move(settings, "collector1", "h2")
    assert running(two, settings) == before
    assert deploy.agent(settings, "collector1").runs_on == "h1"
    deploy.ensure(settings)
    assert running(two, settings) == before
    assert not remnants.known(settings)


def test_after_a_crash_at_any_step_it_ends_well(
    settings: Settings, two: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervision may look at it between crash and repetition, or not."""
    at, to = "h1", "h2"
    either_side = [step for step in STEPS if step.name in ("started", "recorded")]
    for looked_at, steps in ((False, STEPS), (True, either_side)):
        for step in steps:
            with monkeypatch.context() as crashed:
                step.reach(crashed, crash)
                with pytest.raises(Crash):
                    moving.move(settings, "collector1", to)
            if looked_at:
                until(lambda: deploy.ensure(settings) or len(running(two, settings)) == 1, what=str(step))
            moving.move(settings, "collector1", to)
            assert running(two, settings).keys() == {to}, step
            assert deploy.agent(settings, "collector1").runs_on == to
            assert not remnants.known(settings)
            at, to = to, at


def test_whoever_is_killed_on_the_way_it_ends_well(
    settings: Settings, two: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the DAG `collection` does over and over ends each move, also one whose mover was killed."""
    for kill in chosen():
        at = deploy.agent(settings, "collector1").runs_on
        to = "h1" if at == "h2" else "h2"
        sides: dict[Side, str] = {"old": at, "new": to}
        with struck(monkeypatch, kill, partial(process, settings, two, sides)):
            moving.move(settings, "collector1", to)
        until(lambda: supervised(settings, two), what=f"after {kill}")


def process(settings: Settings, two: Hosts, sides: dict[Side, str], side: Side) -> int:
    return running(two, settings).get(sides[side], 0)


def supervised(settings: Settings, two: Hosts) -> bool:
    """Do as the DAG does; whether the collector runs where it is wanted, there alone, and all is told."""
    with suppress(DeployError):
        deploy.apply(settings)
    deploy.ensure(settings)
    host = placed.read(settings)["collector:collector1"]
    return (
        deploy.agent(settings, "collector1").runs_on == host
        and running(two, settings).keys() == {host}
        and not remnants.known(settings)
        and {change.action for change in deploy_plan.plan(settings)} == {"unchanged"}
        and told(settings) == f"collector1={two[host].address}\n"
    )


def test_one_that_dies_while_it_drains_is_started_again_and_drained(
    settings: Settings, two: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = next(step for step in STEPS if step.name == "held")
    said: list[str] = []
    with monkeypatch.context() as killed:
        held.reach(killed, lambda: os.kill(running(two, settings)["h1"], signal.SIGKILL))
        moving.move(settings, "collector1", "h2", said.append)
    assert "collector1 on h1 ended while its channel drained" in said[-1]
    until(lambda: deploy.ensure(settings) or not remnants.known(settings))
    assert (state(settings, "h1") / "clean").exists()
    assert running(two, settings).keys() == {"h2"}


def test_the_deployment_ends_a_move_that_crashed(
    settings: Settings, two: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as crashed:
        Step("before", relocation, "relocate", after=False).reach(crashed, crash)
        with pytest.raises(Crash):
            moving.move(settings, "collector1", "h2")
    changed = deploy.apply(settings)
    assert [change.agent for change in changed] == ["collector1"]
    assert running(two, settings).keys() == {"h2"}
    write(settings, "h1")  # the user's own choice
    deploy.apply(settings)
    assert running(two, settings).keys() == {"h1"}
    assert told(settings) == "collector1=127.0.1.1\n"
    with pytest.raises(MoveError, match=r"collector1 is not placed: .* has it on h1; say `runs_on: placed`"):
        moving.move(settings, "collector1", "h2")


def test_a_deployment_knows_what_moved_while_it_waited(
    settings: Settings, two: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed.write(settings, {placed.unit("collector1"): "h2"})

    def meanwhile(*_: object) -> None:
        placed.write(settings, {placed.unit("collector1"): "h1"})  # it could not run on h2

    monkeypatch.setattr(ingest_topics, "make_topics", meanwhile)
    assert deploy.apply(settings) == []
    assert running(two, settings).keys() == {"h1"}


def test_edges_go_before_the_collectors_that_take_their_lines(
    settings: Settings, two: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploy, "start_all", lambda *_, **__: ([], {}))
    (settings.home / "collection.yaml").write_text(conftest.INVENTORY)
    said: list[str] = []
    deploy.apply(settings, said.append)
    assert [line.partition(":")[0] for line in said if "stopped" in line] == ["far1", "collector1"]
    assert {agent.runs_on for agent in deploy.agents(settings)} == {LOCAL}
    assert not running(two, settings)


def test_a_silent_host_is_left_and_drained_when_it_answers(
    settings: Settings, two: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    (state(settings, "h1") / "size").write_text("7")
    two["h1"].switch_off()
    moving.move(settings, "collector1", "h2")
    moving.move(settings, "collector1", "h2")
    assert running(two, settings).keys() == {"h2"}
    assert told(settings) == "collector1=127.0.1.2\n"
    assert not deploy.drained(settings)
    wait_long(settings)
    looks = health.check_all(settings, deploy.agents(settings), {}, {})
    assert looks["collector1"].alerts.keys() == {"collector1: left on h1"}
    lines = {line.name: line.state for line in shown.agents(settings)}
    assert lines["flume-collector1@h1"] == DaemonState.UNKNOWN

    two["h1"].switch_on()
    deploy.ensure(settings)  # it is started there, to be drained
    until(lambda: running(two, settings).keys() == {"h1", "h2"})
    with monkeypatch.context() as impatient:
        impatient.setattr(remnants, "DRAIN_SECONDS", 1.0)
        deploy.ensure(settings)
    assert remnants.known(settings), "what is in its channel was given up"
    (state(settings, "h1") / "size").unlink()
    until(lambda: deploy.ensure(settings) or not remnants.known(settings))
    assert running(two, settings).keys() == {"h2"}
    assert not health.check_all(settings, deploy.agents(settings), {}, {})["collector1"].alerts


def test_one_that_comes_back_goes_on_with_its_channel(settings: Settings, two: Hosts) -> None:
    two["h1"].switch_off()
    moving.move(settings, "collector1", "h2")
    two["h1"].switch_on()
    (state(settings, "h1") / "size").write_text("7")
    moving.move(settings, "collector1", "h1")
    assert running(two, settings).keys() == {"h1"}
    assert not remnants.known(settings)
    deploy.ensure(settings)
    assert running(two, settings).keys() == {"h1"}


def test_a_host_that_is_gone_is_forgotten_with_what_was_left_there(settings: Settings, two: Hosts) -> None:
    with pytest.raises(StillNeeded, match="collector1 is placed on h1: move it to another host first"):
        forgetting.forgettable(settings, "h1")
    two["h1"].switch_off()
    moving.move(settings, "collector1", "h2")
    assert [agent.name for agent in forgetting.forgettable(settings, "h1")] == ["collector1"]
    forgetting.forget(settings, "h1")
    assert not remnants.known(settings)
    assert deploy.agent(settings, "collector1").runs_on == "h2"


def test_a_host_that_kafka_does_not_know_gets_no_collector(settings: Settings, two: Hosts) -> None:
    broker.record(settings, "h2", [])
    before = running(two, settings)
    with pytest.raises(AgentError, match="Kafka does not know host-h2 yet, or not for topic 'logs'"):
        moving.move(settings, "collector1", "h2")
    assert running(two, settings) == before
    assert placed.read(settings) == {"collector:collector1": "h1"}


def test_a_silent_new_host_changes_nothing(settings: Settings, two: Hosts) -> None:
    moving.move(settings, "collector1", "h2")
    before = running(two, settings)
    two["h1"].switch_off()
    with pytest.raises(ssh.HostUnreachable):
        moving.move(settings, "collector1", "h1")
    assert running(two, settings) == before
    assert placed.read(settings) == {"collector:collector1": "h2"}
    with pytest.raises(InventoryError, match=r"placement\.yaml: collector:collector1 = 'h9': no such host"):
        moving.move(settings, "collector1", "h9")
    with pytest.raises(MoveError, match=r"'other': .* has no such collector; known are collector1"):
        moving.move(settings, "other", "h1")


def test_an_edge_whose_host_was_away_is_told_when_it_answers(settings: Settings, two: Hosts) -> None:
    far1 = deploy.agent(settings, "far1")
    (state(settings, "h2", "far1") / "collectors").write_text("collector1=127.0.9.9\n")
    edge = running(two, settings, "far1")
    assert lifecycle.settled(settings, far1)
    assert told(settings) == addresses.wanted(settings, far1) == "collector1=127.0.1.1\n"
    assert running(two, settings, "far1") == edge


def test_a_collector_has_its_user_and_no_key_of_identities(settings: Settings, two: Hosts) -> None:
    current = state(settings, "h1").parent / "current"
    secret = (settings.home / "hosts" / "h1" / "kafka").read_text()
    assert f'username="host-h1" password="{secret}"' in (current / "kafka.jaas").read_text()
    assert not (current / "identity.key").exists()
    assert not any(path.stat().st_mode & 0o077 for path in current.iterdir())
    shown_to_people = [path for path in current.iterdir() if path.name != "kafka.jaas"]
    assert not any(secret.encode() in path.read_bytes() for path in shown_to_people)
    for host in two.values():
        assert not any(secret in part for each in host.processes() for part in command_line(each))
    assert "identity.key" in {p.name for p in (state(settings, "h2", "far1").parent / "current").iterdir()}
    agent = deploy.agent(settings, "collector1")
    assert machine_of(settings, agent).status(agent).state == "alive"
