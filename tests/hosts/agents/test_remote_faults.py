"""What a host may do wrong, by accident or on purpose: it is that host's failure, and nobody is misled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncssh
import pytest

from sluice.cli import far as shown
from sluice.collection import deploy, health, lifecycle
from sluice.collection.agent import Agent
from sluice.collection.hosting import machine_of
from sluice.collection.metrics import MetricsUnreachable
from sluice.collection.starting import start_all
from sluice.runtime.settings import Settings
from sluice_hosts import hosts
from sluice_hosts.agents import ssh_machine
from sluice_hosts.agents.ssh_machine import SshMachine
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.links import copying, ssh, ssh_files
from sluice_hosts.trust import enrolment
from sluice_lab.waiting import until
from tests.hosts.conftest import JAVA

pytestmark = pytest.mark.slow

SECONDS = 60.0
PROGRAM = "sleep"
SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"CHANNEL.buffer": {"ChannelSize": "7"}}')

HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


def agent_folder(settings: Settings) -> Path:
    directory = enrolment.enrolled(settings, hosts.load(settings)["h1"]).directory
    return Path(directory) / "agents" / "far1"


def start(settings: Settings, far: Agent) -> None:
    lifecycle.start(settings, far, print, drain_seconds=0)


@pytest.mark.parametrize("answer", ["", "alive", "alive x y z", "odd 1 2 3"])
def test_an_odd_answer_of_the_keeper_is_that_agents_failure(
    settings: Settings, machine: EmulatedHost, far: Agent, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    keeper = agent_folder(settings) / "current" / "keeper"
    keeper.parent.mkdir(parents=True)
    keeper.write_text(f"echo '{answer}'")
    with pytest.raises(ssh.RemoteFailed, match="the keeper said"):
        machine_of(settings, far).status(far)
    assert health.check(settings, far).alerts.keys() == {"far1: unknown"}
    monkeypatch.setattr("sluice.collection.starting.deployed", lambda _: [far])
    assert start_all(settings, print)[1].keys() == {"far1"}
    said: list[str] = []
    deploy.stop_far(settings, said.append)
    assert said[0].startswith("far1 is not known to be stopped: ")


def test_any_exception_of_one_host_leaves_the_others_alone(
    settings: Settings, machine: EmulatedHost, far: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bool:
        raise KeyError("odd")

    monkeypatch.setattr(SshMachine, "status", broken)
    monkeypatch.setattr("sluice.collection.starting.deployed", lambda _: [far])
    assert start_all(settings, print) == ([], {"far1": "'odd'"})
    assert health.check_all(settings, [far], {}, {})["far1"].state == "unknown"
    assert [(line.name, line.state) for line in shown.agents(settings)] == [("flume-far1", "unknown")]


def test_two_movers_copy_to_one_host_one_after_the_other(
    settings: Settings, machine: EmulatedHost, far: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both bring the same jars, and would write the same files."""
    at_once = threading.Semaphore(1)

    def alone(*arguments: Any) -> bool:
        assert at_once.acquire(blocking=False)
        copied = copying.copied(*arguments)
        at_once.release()
        return copied

    monkeypatch.setattr(ssh_machine, "copied", alone)
    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(start, settings, far) for _ in range(4)]:
            each.result()


def test_a_deployed_agent_that_does_not_run_raises_an_alert(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    first = health.check(settings, far)  # a deployment stops it for a moment
    assert (first.state, first.alerts) == ("stopped", {})
    second = health.check(settings, far, first)
    assert second.alerts == {
        "far1: stopped": "far1 does not run on h1: see the log of the task supervise",
    }
    (machine.home / "log").rmdir()
    with pytest.raises(ssh.RemoteFailed) as refused:
        start(settings, far)
    why = health.check(settings, far, None, str(refused.value)).alerts["far1: stopped"]
    assert "log on h1 is no directory: make it" in why


def test_who_else_listens_at_the_agents_port_is_not_believed(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    script = machine.home / "server.py"
    script.write_text(SERVER)
    serving = f"exec {sys.executable} {script} {far.metrics_port}"
    machine.program("java", JAVA.replace("exec sleep 100000", serving))
    start(settings, far)
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            assert lifecycle.counters(settings, far).channel == {"ChannelSize": 7.0}
            break
        except MetricsUnreachable:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    lifecycle.stop(settings, far, print, drain_seconds=0)

    machine.program("java", JAVA)
    start(settings, far)
    stranger = HTTPServer(("127.0.0.1", far.metrics_port), BaseHTTPRequestHandler)
    threading.Thread(target=stranger.serve_forever, args=(0.02,), daemon=True).start()
    try:
        with pytest.raises(MetricsUnreachable, match=r"not the agent that listens at port \d+"):
            lifecycle.counters(settings, far)
    finally:
        stranger.shutdown()
        stranger.server_close()


def test_without_a_record_nothing_is_left_running(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    record = agent_folder(settings) / "state" / "process.new"
    record.mkdir(parents=True)
    with pytest.raises(ssh.RemoteFailed, match="the agent ended at once"):
        start(settings, far)
    assert machine.processes(PROGRAM) == []
    record.rmdir()
    start(settings, far)
    assert len(machine.processes(PROGRAM)) == 1


def test_an_order_does_not_wait_for_ever_for_another(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    start(settings, far)
    environment = {"PATH": os.environ["PATH"], "EMULATED_HOST": str(machine.home)}
    held = ["flock", str(agent_folder(settings) / "lock"), "sh", "-c", "echo; exec sleep 1000"]
    with subprocess.Popen(held, env=environment, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(ssh.RemoteFailed, match="another order is at work"):
            lifecycle.stop(settings, far, print, drain_seconds=0)
        machine.switch_off()


def test_a_copy_goes_on_where_it_stopped(
    settings: Settings, machine: EmulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_files, "PIECE", 4)
    link = enrolment.link(settings, hosts.load(settings)["h1"])
    (machine.home / "new").mkdir()
    (machine.home / "new" / "file").write_bytes(b"xxxx\0\0")
    link.copy(machine.home / "new", {"file": b"0123456789", "sub/other": b"whole"})
    assert (machine.home / "new" / "file").read_bytes() == b"xxxx456789"
    assert (machine.home / "new" / "sub" / "other").read_bytes() == b"whole"


def test_a_copy_that_takes_too_long_is_no_silent_host(
    settings: Settings, machine: EmulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "COPY_SECONDS", 0.0)
    link = enrolment.link(settings, hosts.load(settings)["h1"])
    with pytest.raises(ssh.RemoteFailed, match="goes on at the next try"):
        link.copy(machine.home / "new", {"file": b"0123456789"})


def test_a_folder_that_may_not_be_read_is_not_an_empty_one(
    settings: Settings, machine: EmulatedHost, far: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.home / "log" / os.fsdecode(b"odd\xff.log")).touch()
    assert machine_of(settings, far).all_read(far)

    async def refused(*_: object) -> None:
        raise asyncssh.SFTPPermissionDenied("Permission denied")

    monkeypatch.setattr(asyncssh.SFTPClient, "readdir", refused)
    with pytest.raises(ssh.RemoteFailed, match="log cannot be read: Permission denied"):
        machine_of(settings, far).log_files(far.name, far.patterns(settings.home))
    assert not deploy.drained(settings)


def test_a_file_counts_as_read_only_at_its_end(settings: Settings, machine: EmulatedHost, far: Agent) -> None:
    log = machine.home / "log" / "access.2026-01-02.log"
    log.write_bytes(b"a line\n")
    positions = agent_folder(settings) / "state" / "position.json"
    positions.parent.mkdir(parents=True)
    for pos, read in ((7, True), (0, False), (14, False)):  # the last: it was truncated since
        positions.write_text(json.dumps([{"inode": 1, "pos": pos, "file": str(log)}]))
        assert machine_of(settings, far).all_read(far) is read
    positions.write_text('[{"inode": 1, "po')
    assert not machine_of(settings, far).all_read(far)


def test_a_mistake_in_the_list_of_hosts_is_an_agent_that_does_not_answer(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    (settings.home / hosts.FILE).write_text("- name: [")
    with pytest.raises(MetricsUnreachable, match="not YAML"):
        lifecycle.counters(settings, far)
    assert not deploy.drained(settings)


def test_a_command_whose_end_was_not_seen_has_no_answer(settings: Settings, machine: EmulatedHost) -> None:
    link = enrolment.link(settings, hosts.load(settings)["h1"])
    link.run("true")
    threading.Timer(1.0, machine.switch_off).start()
    with pytest.raises(ssh.HostUnreachable):
        link.run("sleep", "30")


def test_a_host_that_was_lost_under_many_commands_was_silent_once(
    settings: Settings, machine: EmulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "AWAY_SECONDS", 10.0)
    link = enrolment.link(settings, hosts.load(settings)["h1"])
    link.run("true")
    with ThreadPoolExecutor() as pool:
        commands = [pool.submit(link.run, "sleep", "30") for _ in range(4)]
        until(lambda: len(machine.processes("sleep")) == 4)
        machine.switch_off()
        assert all(isinstance(each.exception(), ssh.HostUnreachable) for each in commands)
    assert link._away_seconds == 10.0


def test_a_silent_host_is_asked_less_and_less_often(
    settings: Settings, machine: EmulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "AWAY_SECONDS", 10.0)
    now = [0.0]
    monkeypatch.setattr(ssh, "time", SimpleNamespace(monotonic=lambda: now[0]))
    link = enrolment.link(settings, hosts.load(settings)["h1"])
    link.run("true")
    machine.switch_off()
    link.close()
    asked = []
    while now[0] < 1_500:
        tried = link._away_until
        with pytest.raises(ssh.HostUnreachable):
            link.run("true")
        if link._away_until != tried:
            asked.append(link._away_until - now[0])
        now[0] += 10
    assert asked == [10, 20, 40, 80, 160, 300, 300, 300, 300]
    machine.switch_on()
    now[0] += 300
    link.run("true")
    assert link._away_seconds == 0


def test_status_and_logs_know_agents_elsewhere(settings: Settings, machine: EmulatedHost, far: Agent) -> None:
    (line,) = shown.agents(settings)
    assert (line.name, line.state, line.problem) == ("flume-far1", "stopped", "does not run on h1")
    start(settings, far)
    (line,) = shown.agents(settings)
    assert (line.state, line.problem) == ("running", "")
    logs = agent_folder(settings) / "state" / "logs"
    (logs / "out").write_text("Invalid maximum heap size\n")
    (logs / "flume-far1.log").write_text("one\ntwo\n")
    assert shown.logs(settings, far, 1) == ["Invalid maximum heap size", "two"]
    for each in machine.processes(PROGRAM):
        each.kill()
    deadline = time.monotonic() + SECONDS
    while (line := shown.agents(settings)[0]).state != "dead":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert line.problem == "see `sluice logs flume-far1`"
