"""The configuration of every agent, rendered from the inventory.

``docs/decisions/0004-collection-without-loss.md`` and ``0015-blocks-of-lines.md`` have the measurements
behind the templates' numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jinja2

from sluice.collection.agent import AGENT_FILE, Agent
from sluice.collection.hosting import hosting
from sluice.collection.inventory import Collector, FrontEnd, Inventory
from sluice.runtime.settings import Settings
from sluice.transmission.listener import STORE_PASSWORD

# A block of lines has at most 64 KiB, or is a single line (`sluice.flume.Blocks`).
BATCH = 100  # blocks in a transaction that puts into a channel: below the 8 MiB at which a batch ends anyway
SINK_BATCH = 32  # and in one that takes from it: a sink holds all of them in memory, however long they are
#: The bytes that an edge's memory channel may hold, whatever its capacity is.
MEMORY_BYTES = 64 << 20
#: Gives a file's stretches to Kafka's partitions in turn.
PARTITIONER = "sluice.flume.StretchPartitioner"
# Kafka's producer sends so much for a partition at once: a whole stretch of a file, compressed together.
PRODUCER_BATCH = 320 << 10
IDLE_MS = 3_600_000
# How much of Kafka's longest message is kept for a record's headers, key and framing; paths have 4 KiB at
# most.
OVERHEAD = 16 << 10

_jinja = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    autoescape=False,  # noqa: S701 - properties files, not HTML
    trim_blocks=True,
    lstrip_blocks=True,
)
# In a properties file a backslash is written twice.
_jinja.filters["escaped"] = lambda text: str(text).replace("\\", "\\\\")


@dataclass(frozen=True)
class Rendered:
    """An agent and the text of each file of its folder, by name."""

    agent: Agent
    files: dict[str, str]
    tls: bool = False  # between edges and collectors


def render(inventory: Inventory, settings: Settings) -> dict[str, Rendered]:
    """Every agent's files, collectors first, by the agent's name."""
    # With agents on other hosts the collectors listen to the network: over TLS, for all edges alike.
    tls = hosting().speaks_tls(inventory, settings)
    collectors = [_collector(c, inventory, settings, tls) for c in inventory.collectors]
    edges = [_edge(f, inventory, settings, tls) for f in inventory.front_ends]
    return {r.agent.name: r for r in [*collectors, *edges]}


def _edge(front_end: FrontEnd, inventory: Inventory, settings: Settings, tls: bool) -> Rendered:
    ports = {c.name: c.port for c in inventory.collectors}
    agent = Agent(
        front_end.host,
        "edge",
        inventory.topic,
        front_end.channel,
        front_end.capacity,
        front_end.metrics_port or 0,
        files=tuple(front_end.files),
        max_line=settings.kafka.max_message_bytes - OVERHEAD,
        runs_on=front_end.runs_on,
    )
    sinks = [
        {
            "sink": f"to_{i}",
            # With TLS its address is in a file beside, because it may move.
            "at": name if tls else settings.bind_host,
            "port": ports[name],
            "priority": 10 * (len(front_end.collectors) - i),
        }
        for i, name in enumerate(front_end.collectors)
    ]
    patterns = [f"{p.directory}/{p.regex}" for p in agent.patterns(settings.home)]
    return _rendered(
        agent,
        "edge.properties.j2",
        settings,
        tls,
        sinks=sinks,
        patterns=patterns,
        idle_ms=IDLE_MS,
    )


def _collector(collector: Collector, inventory: Inventory, settings: Settings, tls: bool) -> Rendered:
    agent = Agent(
        collector.name,
        "collector",
        inventory.topic,
        "file",
        collector.capacity,
        collector.metrics_port or 0,
        port=collector.port,
        runs_on=inventory.host_of(collector),
    )
    machine = hosting().machine(settings, agent.runs_on)
    return _rendered(
        agent,
        "collector.properties.j2",
        settings,
        tls,
        address=machine.address if tls else settings.bind_host,
        topic=inventory.topic,
        bootstrap=machine.bootstrap,
        logs_in=machine.logs_in,
        store_password=STORE_PASSWORD,
        max_request=settings.kafka.max_message_bytes + OVERHEAD,
        partitioner=PARTITIONER,
        producer_batch=PRODUCER_BATCH,
    )


def _rendered(agent: Agent, template: str, settings: Settings, tls: bool, **values: object) -> Rendered:
    machine = hosting().machine(settings, agent.runs_on)
    at = machine.files(agent.name)
    values |= {
        "agent": agent,
        "tls": tls,
        "home": at.home,
        "folder": at.folder,
        "key": at.identity_key,
        "addresses": at.addresses,
        "identity": at.identity,
        "trust": at.trust,
        "certificates": machine.certificates,
        "batch": BATCH,
        "sink_batch": SINK_BATCH,
        "memory_bytes": MEMORY_BYTES,
        # As the layers: intake stops before. On another host it is all that guards the disk.
        "least_disk": settings.limits.reserve_bytes // 2,
    }
    return Rendered(
        agent,
        {
            "agent.properties": _jinja.get_template(template).render(values),
            "log4j2.properties": _jinja.get_template("log4j2.properties.j2").render(values),
            AGENT_FILE: agent.to_json(),
        },
        tls,
    )
