"""The demo over several hosts: emulated ones, enrolled, with the front-ends' agents and the collectors."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from sluice.cli.demo.problems import MOST_HOSTS, TOPIC
from sluice.cli.output.phases import Phases, Say

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings
    from sluice_hosts.emulated.host import EmulatedHost

#: From this number of hosts on, the front-ends' agents run on two hosts.
_TWO_WITH_EDGES = 4
FRONT_ENDS, COLLECTORS = ("web1", "web2"), ("collector1", "collector2")
#: The collector that moves while lines come.
MOVED = COLLECTORS[0]
_HOMES = "emulated"
_FILES = "access.%Y-%m-%d.log"
_SIGTERM_CODE = 128 + signal.SIGTERM


class NoHosts(ValueError):
    """The number of hosts cannot be used."""


@dataclass(frozen=True)
class Layout:
    """Which host runs what: by front-end and by collector, and where the collector MOVED goes."""

    hosts: tuple[str, ...]
    front_ends: dict[str, str]
    collectors: dict[str, str]
    goes_to: str

    def __str__(self) -> str:
        at = self.front_ends | self.collectors
        return "; ".join(
            f"{host}: {', '.join(name for name, own in at.items() if own == host) or 'nothing yet'}"
            for host in dict.fromkeys([*self.hosts, *at.values()])
        )


def layout(number: str) -> Layout:
    """The front-ends' agents on the first one or two hosts, the collectors on two others if there are.

    number: how many hosts. Raises NoHosts.
    """
    from sluice.collection.agent import LOCAL

    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= MOST_HOSTS:
        raise NoHosts(f"HOSTS={number}: give a number of hosts from 1 to {MOST_HOSTS}, or leave it out")
    count = int(number)
    hosts = [f"host{n}" for n in range(1, count + 1)]
    edges = hosts[: 2 if count >= _TWO_WITH_EDGES else 1]
    # Where collectors run and go, the first choice first.
    places = [*hosts[len(edges) :], *edges, LOCAL]
    return Layout(
        hosts=tuple(hosts),
        front_ends={name: edges[at % len(edges)] for at, name in enumerate(FRONT_ENDS)},
        collectors=dict(zip(COLLECTORS, places, strict=False)),
        goes_to=places[min(len(COLLECTORS), len(places) - 1)],
    )


def files(settings: Settings, host: str, front_end: str) -> str:
    """The pattern of a front-end's files on its host."""
    return str(_folder(settings, host, front_end) / _FILES)


@contextmanager
def running(settings: Settings, wanted: Layout, phases: Phases) -> Iterator[None]:
    """Hosts that are enrolled, and an inventory with agents on them, before the platform starts.

    At the end, however it comes, the platform and the hosts end, too.
    """
    from sluice.stack.networking import private
    from sluice_hosts.emulated import fleet

    private.close(settings)
    roles: fleet.Roles = dict.fromkeys(wanted.hosts, ("edge", "collector"))
    made = fleet.build(settings.home / _HOMES, roles)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_SIGTERM_CODE))
    try:
        with phases.phase("enrol the hosts") as say:
            for host in made.values():
                host.install_java()
            for front_end, name in wanted.front_ends.items():
                _folder(settings, name, front_end).mkdir()
            fleet.switch_on(settings, made, roles)
            fleet.enrol(settings, made)
            _write_inventory(settings, wanted)
            say(str(wanted))
        yield
    finally:
        try:
            with phases.phase("end the platform and hosts") as say:
                _end(settings, made, say)
        finally:
            for host in made.values():
                host.switch_off()
            signal.signal(signal.SIGTERM, before)


def _end(settings: Settings, made: dict[str, EmulatedHost], say: Say) -> None:
    from sluice.cli import instance

    instance.down(settings, lambda text: say(text.strip()))
    left = sum(len(host.processes("java")) for host in made.values())
    say("all that ran is stopped" + (f"; {left} agents are killed" if left else ""))


def _write_inventory(settings: Settings, wanted: Layout) -> None:
    from sluice.collection import inventory
    from sluice.collection.inventory import PLACED
    from sluice.runtime.files import write_whole
    from sluice_hosts import placed

    text = {
        "topic": TOPIC,
        "front_ends": [
            {"host": name, "runs_on": host, "channel": "file", "files": [files(settings, host, name)]}
            for name, host in wanted.front_ends.items()
        ],
        "collectors": [{"name": name, "runs_on": PLACED} for name in wanted.collectors],
    }
    placed.write(settings, {placed.unit(name): host for name, host in wanted.collectors.items()})
    write_whole(settings.home / "collection.yaml", yaml.safe_dump(text, sort_keys=False))
    inventory.load(settings)


def _folder(settings: Settings, host: str, front_end: str) -> Path:
    return settings.home / _HOMES / host / "log" / front_end
