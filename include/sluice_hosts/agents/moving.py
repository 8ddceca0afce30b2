"""Move a placed collector to another host while lines come."""

from __future__ import annotations

from sluice.collection import inventory, lifecycle, records
from sluice.collection.agent import Agent
from sluice.collection.at_once import by_machine
from sluice.collection.deploy_plan import AgentChange, deployed
from sluice.collection.errors import AgentError
from sluice.collection.inventory import PLACED, Inventory
from sluice.collection.lifecycle import Log
from sluice.collection.metrics import MetricsUnreachable
from sluice.collection.render import Rendered, render
from sluice.runtime.settings import Settings
from sluice_hosts import placed
from sluice_hosts.agents import relocation, remnants


class MoveError(AgentError):
    """The collector cannot be moved; nothing was changed."""


def move(settings: Settings, collector: str, to_host: str, log: Log = print) -> None:
    """Move a collector whose `runs_on` is `placed`, and record its place; no line is lost or counted twice.

    It may be repeated after a crash at any step, and does nothing to a collector that runs there. What its
    old host cannot drain now, because it is silent or Kafka is away, is drained later (`remnants`). Different
    collectors may be moved at the same time, and wait for a deployment, but not for each other.

    Raises inventory.InventoryError if it cannot run there, MoveError or HostUnreachable if nothing was
    changed, and AgentError if it goes on where it is because it does not start at the new host, or if the
    supervision tries on to start it there. Either way the new place stays recorded as wanted.
    """
    with records.moving(settings, collector):
        place = {placed.unit(collector): to_host}
        found = inventory.load(settings, placed=placed.collectors({**placed.read(settings), **place}))
        _check(settings, found, collector)
        rendered = render(found, settings)[collector]
        change = AgentChange(collector, "collector", "change", rendered=rendered)
        old = next((agent for agent in deployed(settings) if agent.name == collector), None)
        if old is None:  # the deployment creates it there
            placed.update(settings, place)
            return
        _check_tls(settings, old, rendered)
        relocation.prepare(settings, rendered, log)
        placed.update(settings, place)
        if old.runs_on != to_host:
            relocation.relocate(settings, old, change, log)
        else:
            records.write(settings, change)
        if not lifecycle.settled(settings, rendered.agent):
            lifecycle.start(settings, rendered.agent, log)
        lifecycle.await_ready(settings, [rendered.agent])
        _tell_edges(settings)
        remnants.drain_of(settings, collector, log)


def _check(settings: Settings, found: Inventory, name: str) -> None:
    collector = next((each for each in found.collectors if each.name == name), None)
    path = inventory.path_of(settings)
    if collector is None:
        known = ", ".join(each.name for each in found.collectors)
        raise MoveError(f"{name!r}: {path} has no such collector; known are {known}")
    if collector.runs_on != PLACED:
        raise MoveError(
            f"{name} is not placed: {path} has it on {collector.runs_on}; say `runs_on: {PLACED}` to have it "
            "moved, or write the other host there"
        )


def _check_tls(settings: Settings, old: Agent, rendered: Rendered) -> None:
    if rendered.tls and not records.speaks_tls(settings, old):
        raise MoveError(
            f"{old.name} does not speak TLS yet: wait until the DAG `collection` has deployed the inventory"
        )


def _tell_edges(settings: Settings) -> None:
    """Tell the edges the collectors' addresses; a host that is away is told by the supervision."""

    def tell(those: list[Agent]) -> None:
        for each in those:
            try:
                lifecycle.settled(settings, each)
            except (MetricsUnreachable, AgentError):
                continue

    with records.guarded(settings, "tell"):  # two movers would leave what the slower one knew
        by_machine([agent for agent in deployed(settings) if agent.tier == "edge"], tell)
