"""Kafka, PostgreSQL, emulated hosts and Flume's agents: an instance of the platform for the laboratory alone.

It has what collection and placement need and nothing else: a broker, a database, and agents that the
product's own code deploys over SSH. Everything is deleted at the end.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

import psutil
import sqlalchemy as sa
import yaml

from sluice.collection import deploy
from sluice.collection.agent import Agent
from sluice.collection.hosting import machine_of
from sluice.collection.inventory import PLACED
from sluice.collection.machine import ProcessState
from sluice.collection.records import DeployError
from sluice.placement.base import Cluster
from sluice.runtime.settings import Settings, make_secret
from sluice.stack import initialise, secrets
from sluice.stack.daemon import Daemon, Unhealthy
from sluice.stack.daemons.kafka import KAFKA
from sluice.stack.daemons.postgres import POSTGRES
from sluice.stack.networking import private
from sluice.storage.postgres import engine
from sluice_hosts import placed
from sluice_hosts.emulated import fleet
from sluice_hosts.emulated.host import HostDied
from sluice_hosts.hosts import Role
from sluice_lab.placement.live import scenarios
from sluice_lab.processes import LaboratoryFailed, end_with_laboratory

TOPIC = "lines"
#: The hosts of the front-ends; they take no units.
WEB = ("web1", "web2")
PORT_BASE = 26_000
_START_SECONDS, _DEPLOY_SECONDS = 180.0, 600.0


class Bed:
    """All of it, as a context: started on entry, stopped on exit. home: an empty folder."""

    def __init__(self, home: Path) -> None:
        self._folder = home
        instance = home / "instance"
        for secret in ("identity", *secrets.POSTGRES):
            make_secret(instance, secret)
        self.settings = Settings(instance="lab", home=instance, port_base=PORT_BASE, network="private")
        self._roles: dict[str, tuple[Role, ...]] = {
            **dict.fromkeys(scenarios.hosts(), ("collector",)),
            **dict.fromkeys(WEB, ("edge",)),
        }
        self._hosts = fleet.build(home, self._roles)
        self._open: list[str] = []
        self._own: list[psutil.Process] = []
        self._stack = ExitStack()

    def __enter__(self) -> Bed:
        with ExitStack() as stack:
            private.close(self.settings)
            self._enrol(stack)
            for daemon in (KAFKA, POSTGRES):
                self._start(daemon, stack)
            initialise.database(self.settings)
            stack.callback(self.database.dispose)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def database(self) -> sa.Engine:
        return engine(self.settings)

    def list_hosts(self, names: Iterable[str]) -> None:
        """Have these hosts take units, and no others."""
        self._open = sorted(names)
        listed = {name: self._roles[name] for name in (*self._open, *WEB)}
        fleet.list_hosts(self.settings, self._hosts, listed)

    def cluster(self, names: Iterable[str] = (), loads: Mapping[str, float] | None = None) -> Cluster:
        """The units on the hosts that take units, or on these ones, as a plan sees them."""
        running = {each.name: each.runs_on for each in self.collectors()}
        return scenarios.cluster(names or self._open, running, loads)

    def place(self, where: Mapping[str, str]) -> None:
        """Have each unit run on its host, by one deployment; no line need come meanwhile."""
        placed.write(self.settings, {placed.unit(unit): host for unit, host in where.items()})
        deadline = time.monotonic() + _DEPLOY_SECONDS
        while True:
            try:
                deploy.apply(self.settings, say)
                return
            except DeployError as error:  # a machine with too much to do
                if time.monotonic() > deadline:
                    raise LaboratoryFailed(f"the agents could not be deployed: {error}") from error
                say(str(error))

    def collectors(self) -> list[Agent]:
        return [agent for agent in deploy.agents(self.settings) if agent.tier == "collector"]

    def pid(self, unit: str) -> int:
        """The process of a unit. Raises LaboratoryFailed if it does not run."""
        agent = deploy.agent(self.settings, unit)
        now = machine_of(self.settings, agent).status(agent)
        if now.state != ProcessState.ALIVE:
            raise LaboratoryFailed(f"{unit} does not run")
        return now.pid

    def running(self) -> dict[str, int]:
        """The living processes of units on each host, as the host has them."""
        return {name: len(self._hosts[name].processes("java")) for name in scenarios.hosts()}

    def log_file(self, front_end: str, day: str) -> Path:
        """The file to which a front-end writes."""
        return Path(str(_pattern(self._hosts, front_end)).replace("%Y-%m-%d", day))

    def processes(self) -> list[psutil.Process]:
        """All that runs here, and this process."""
        on_hosts = [process for host in self._hosts.values() for process in host.processes()]
        begun = [process for own in self._own for process in own.children(recursive=True)]
        return [psutil.Process(), *self._own, *begun, *on_hosts]

    def _enrol(self, stack: ExitStack) -> None:
        for host in self._hosts.values():
            host.install_java(scenarios.HEAP)
            stack.callback(host.switch_off)
        try:
            fleet.switch_on(self.settings, self._hosts, self._roles)
        except HostDied as error:
            raise LaboratoryFailed(str(error)) from error
        fleet.enrol(self.settings, self._hosts)
        (self.settings.home / "collection.yaml").write_text(yaml.safe_dump(inventory(self._hosts)))

    def _start(self, daemon: Daemon, stack: ExitStack) -> None:
        for step in daemon.prepare:
            step(self.settings)
        told = self._folder / f"{daemon.name}.log"
        with told.open("wb") as log:
            begun = subprocess.Popen(
                daemon.command(self.settings).argv, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, preexec_fn=end_with_laboratory,  # noqa: PLW1509
            )  # fmt: skip
        self._own.append(psutil.Process(begun.pid))
        stack.callback(begun.wait)
        stack.callback(begun.send_signal, signal.Signals[f"SIG{daemon.stop_signal}"])
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and begun.poll() is None:
            with suppress(Unhealthy):
                daemon.health(self.settings)
                return
            time.sleep(0.5)
        said = told.read_text(errors="replace")[-2000:]
        raise LaboratoryFailed(f"{daemon.name} did not start: {said.strip()}")


def inventory(hosts: fleet.Fleet) -> dict[str, object]:
    """Each unit has a front-end, which sends to the other units of the application if it must."""
    units = scenarios.units()

    def order(unit: str) -> list[str]:
        own = [each for each in units if scenarios.application(each) == scenarios.application(unit)]
        at = own.index(unit)
        return own[at:] + own[:at]

    return {
        "topic": TOPIC,
        "collectors": [{"name": unit, "runs_on": PLACED} for unit in units],
        "front_ends": [
            {
                "host": scenarios.front_end(unit),
                "runs_on": _web(scenarios.front_end(unit)),
                "channel": "file",
                "files": [str(_pattern(hosts, scenarios.front_end(unit)))],
                "collectors": order(unit),
            }
            for unit in units
        ],
    }


def _web(front_end: str) -> str:
    """The host of a front-end."""
    return WEB[[scenarios.front_end(unit) for unit in scenarios.units()].index(front_end) % len(WEB)]


def _pattern(hosts: fleet.Fleet, front_end: str) -> Path:
    return hosts[_web(front_end)].home / "log" / f"{front_end}.%Y-%m-%d.log"


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
