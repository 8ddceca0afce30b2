"""A host that is gone holds up only what is on it; it can be given up; a reset leaves no agent behind.

No agent of this machine is started.
"""

from __future__ import annotations

import re
import stat

import pytest

from sluice.collection import deploy, deploy_plan, ingest_topics, lifecycle
from sluice.collection.agent import Agent, folder
from sluice.collection.deploy import DeployError
from sluice.collection.render import render
from sluice.runtime.settings import Settings
from sluice_hosts import hosts
from sluice_hosts.agents import forgetting
from sluice_hosts.agents.forgetting import StillNeeded
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.trust import certificates, enrolment
from tests.collection.conftest import INVENTORY

pytestmark = pytest.mark.slow

NEW = '\n  - {host: web3, files: ["{home}/frontends/web3/access.%Y-%m-%d.log"]}\ncollectors:\n'
FAR2 = '\n  - {host: far2, runs_on: h1, channel: file, files: ["/other/access.%Y-%m-%d.log"]}'


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "start_all", lambda *_, **__: ([], {}))
    monkeypatch.setattr(ingest_topics, "make_topics", lambda *_: None)


def write(settings: Settings, more: str) -> None:
    (settings.home / "collection.yaml").write_text(INVENTORY.replace("\ncollectors:\n", more))


def names(settings: Settings) -> set[str]:
    return {agent.name for agent in deploy.agents(settings)}


@pytest.mark.usefixtures("nothing_starts")
def test_a_dead_host_holds_up_only_what_is_on_it(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    machine.switch_off()
    write(settings, FAR2 + NEW)
    with pytest.raises(DeployError, match=r"far1 cannot be drained .*: sluice hosts forget h1"):
        deploy.apply(settings)
    assert names(settings) >= {"far1", "far2", "web3"}
    left = [(c.agent, c.action) for c in deploy_plan.plan(settings) if c.action != "unchanged"]
    assert left == [("far1", "remove")]


@pytest.mark.usefixtures("nothing_starts")
def test_tls_stays_while_an_agent_that_shall_go_needs_it(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    machine.switch_off()
    write(settings, NEW)
    with pytest.raises(DeployError, match=r"collector1 waits: it would give up TLS, which far1 still needs"):
        deploy.apply(settings)
    assert names(settings) == {"far1", "web1", "web2", "collector1", "collector2"}
    assert "Tls" in (folder(settings, "collector1") / "agent.properties").read_text()


@pytest.mark.usefixtures("nothing_starts")
def test_a_dead_host_is_forgotten_and_one_that_answers_is_not(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    with pytest.raises(StillNeeded, match=r"far1 of .*collection\.yaml runs on h1: take it out first"):
        forgetting.forgettable(settings, "h1")
    write(settings, "\ncollectors:\n")
    with pytest.raises(StillNeeded, match="h1 answers"):
        forgetting.forgettable(settings, "h1")
    machine.switch_off()
    assert forgetting.forgettable(settings, "h1") == [far]
    forgetting.forget(settings, "h1")
    assert names(settings) == {"web1", "web2", "collector1", "collector2"}
    deploy.apply(settings)
    assert "Tls" not in (folder(settings, "collector1") / "agent.properties").read_text()


def test_a_reset_stops_agents_elsewhere_and_names_those_that_may_run(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    lifecycle.start(settings, far, print, drain_seconds=0)
    said: list[str] = []
    deploy.stop_far(settings, said.append)
    assert machine.processes("sleep") == []
    assert said == ["far1: stopped"]
    machine.switch_off()
    deploy.stop_far(settings, said.append)
    assert re.match(r"far1 is not known to be stopped: host h1 .* does not answer", said[-1])


def test_an_instance_that_was_reset_has_another_folder_on_the_host(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    host = hosts.load(settings)["h1"]
    before = enrolment.enrolled(settings, host)
    mark = enrolment.folder(settings) / "mark"
    assert before.directory.endswith(f"/test-{mark.read_text()}")
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    for path in (mark, enrolment.folder(settings, "h1") / "enrolled.json"):
        path.unlink()
    after = enrolment.enrol(settings, host, enrolment.ssh.host_key(host.address, machine.port)[1])
    assert after.directory != before.directory


def test_another_certificate_of_this_machine_is_a_change_of_its_agents_alone(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    certificates.issue(enrolment.folder(settings), "local", "127.0.0.1")
    changed = {c.agent for c in deploy_plan.plan(settings) if c.action == "change"}
    assert changed == {"web1", "web2", "collector1", "collector2"}
    without = deploy_plan.inventory.load(settings)
    only = without.model_copy(update={"front_ends": without.front_ends[:2]})
    texts = [each.files["agent.properties"] for each in render(only, settings).values()]
    assert not any("identity and trust" in text for text in texts)
