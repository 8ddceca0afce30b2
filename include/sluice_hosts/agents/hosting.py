"""What several hosts add to the deployment of agents: it is joined to the core under the name `agents`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sluice.collection.agent import LOCAL, Agent
from sluice.collection.deploy_plan import AgentChange
from sluice.collection.hosting import Hosting, Log
from sluice.collection.inventory import PLACED, FrontEnd, Inventory
from sluice.collection.local_machine import LocalMachine
from sluice.collection.machine import Machine
from sluice.collection.render import Rendered
from sluice.runtime.settings import Settings
from sluice_hosts import hosts, placed
from sluice_hosts.agents import addresses, granting, relocation, remnants
from sluice_hosts.agents.ssh_machine import SshMachine
from sluice_hosts.errors import EnrolError
from sluice_hosts.hosts import Host
from sluice_hosts.trust import broker, certificates, enrolment, exposure


class ReachableMachine(LocalMachine):
    """This machine, as agents of other hosts reach it."""

    @property
    def address(self) -> str:
        return hosts.load(self._settings)[LOCAL].address

    @property
    def certificates(self) -> str:
        return certificates.checksum(enrolment.folder(self._settings, LOCAL))


class SeveralHosts(Hosting):
    """Agents also run on the hosts of hosts.yaml."""

    def machine(self, settings: Settings, name: str) -> Machine:
        return ReachableMachine(settings) if name == LOCAL else SshMachine(settings, name)

    def placed(self, settings: Settings) -> Mapping[str, str]:
        return placed.collectors(placed.read(settings))

    def problems(self, inventory: Inventory, settings: Settings) -> Iterator[str]:
        return _problems(self, inventory, settings)

    def speaks_tls(self, inventory: Inventory, settings: Settings) -> bool:
        """Whether an agent runs on another host, or may be placed there."""
        if any(f.runs_on != LOCAL for f in inventory.front_ends):
            return True
        if any(c.runs_on not in (LOCAL, PLACED) for c in inventory.collectors):
            return True
        if all(c.runs_on == LOCAL for c in inventory.collectors):
            return False  # without a look at hosts.yaml
        may = set(broker.admitted(settings))
        return any("collector" in host.roles and name in may for name, host in hosts.load(settings).items())

    def addresses(self, settings: Settings, agent: Agent) -> str | None:
        return addresses.wanted(settings, agent)

    def grant_rights(self, settings: Settings, log: Log) -> None:
        granting.grant_rights(settings, log)

    def prepare(self, settings: Settings, rendered: Rendered, log: Log) -> None:
        relocation.prepare(settings, rendered, log)

    def relocate(self, settings: Settings, old: Agent, change: AgentChange, log: Log) -> None:
        relocation.relocate(settings, old, change, log)

    def left_behind(self, settings: Settings) -> Sequence[Agent]:
        return remnants.known(settings)

    def overdue(self, settings: Settings) -> Sequence[Agent]:
        return remnants.overdue(settings)

    def drain_left(self, settings: Settings, log: Log) -> None:
        remnants.drain(settings, log)

    def files(self, settings: Settings) -> Sequence[Path]:
        return [hosts.path_of(settings), placed.path_of(settings), *enrolment.files(settings)]

    def settings_files(self, settings: Settings) -> Sequence[Path]:
        return [hosts.path_of(settings)]

    def warnings(self, settings: Settings) -> Iterator[str]:
        return exposure.warnings(settings)


SEVERAL = SeveralHosts()


def _problems(several: SeveralHosts, inventory: Inventory, settings: Settings) -> Iterator[str]:
    """The problems of agents that run on other hosts; without one, hosts.yaml is not read."""
    named = {f.runs_on for f in inventory.front_ends} | {c.runs_on for c in inventory.collectors}
    if named == {LOCAL}:
        return
    try:
        known = hosts.load(settings)
    except hosts.HostsError as error:
        yield str(error)
        return
    if several.speaks_tls(inventory, settings) and (
        problem := enrolment.local_problem(settings, known[LOCAL])
    ):
        yield problem
    for i, front_end in enumerate(inventory.front_ends):
        if front_end.runs_on != LOCAL:
            yield from _front_end_problems(f"front_ends.{i}", front_end, settings, known)
    for i, collector in enumerate(inventory.collectors):
        name = inventory.host_of(collector)
        if name != LOCAL:
            field = f"collectors.{i}.runs_on"
            if collector.runs_on == PLACED:
                field = f"{placed.path_of(settings)}: {placed.unit(collector.name)}"
            yield from _collector_problems(field, name, settings, known)
    agents = Counter(
        [f.runs_on for f in inventory.front_ends] + [inventory.host_of(c) for c in inventory.collectors]
    )
    for name, number in agents.items():
        if name != LOCAL and name in known and number > known[name].slots:
            slots = known[name].slots
            yield f"host {name} has {slots} slots, {number} agents run on it: give it more, or move one"


def _front_end_problems(
    field: str, front_end: FrontEnd, settings: Settings, known: Mapping[str, Host]
) -> Iterable[str]:
    if problem := _host_problem(f"{field}.runs_on", front_end.runs_on, "edge", settings, known):
        yield problem
    if front_end.channel != "file":
        yield f"{field}.channel = {front_end.channel!r}: say file: on another host it alone loses nothing"
    for j, text in enumerate(front_end.files):
        if text.startswith("{home}"):
            yield f"{field}.files.{j} = {text!r}: {{home}} is on this machine; write the path out"


def _collector_problems(
    field: str, name: str, settings: Settings, known: Mapping[str, Host]
) -> Iterable[str]:
    if problem := _host_problem(field, name, "collector", settings, known):
        yield problem
    elif name not in broker.admitted(settings):
        yield f"{field} = {name!r}: it has no user in Kafka yet: run `sluice hosts enrol {name}`"
    if "kafka" in settings.external:
        yield (
            f"{field} = {name!r}: Kafka is external, and Sluice makes users only in its own; say local, or "
            "take kafka out of --external"
        )


def _host_problem(
    field: str, name: str, role: hosts.Role, settings: Settings, known: Mapping[str, Host]
) -> str:
    """Why no agent of that kind can run there; empty if one can."""
    if name not in known:
        return f"{field} = {name!r}: no such host; hosts.yaml has {', '.join(sorted(known))}"
    if role not in known[name].roles:
        return f"{field} = {name!r}: the host has no role {role}; add it to its `roles` in hosts.yaml"
    try:
        enrolment.enrolled(settings, known[name])
    except EnrolError as error:
        return f"{field}: {error}"
    return ""
