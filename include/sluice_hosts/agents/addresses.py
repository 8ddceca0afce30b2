"""The collectors' addresses, as each edge that speaks TLS has them in a file.

The file is no part of the edge's configuration: an edge follows a collector to another host while it runs.
"""

from __future__ import annotations

from sluice.collection.agent import Agent, folder
from sluice.collection.deploy_plan import deployed
from sluice.runtime.settings import Settings
from sluice_hosts import hosts


def wanted(settings: Settings, agent: Agent) -> str | None:
    """What the agent's file is to say, a line `name=address` for each deployed collector.

    None if it needs no such file, or if the list of hosts is faulty: what is there stays then.
    """
    properties = folder(settings, agent.name) / "agent.properties"
    if agent.tier != "edge" or not properties.exists() or ".addresses = " not in properties.read_text():
        return None
    try:
        known = hosts.load(settings)
    except hosts.HostsError:
        return None
    return "".join(
        f"{each.name}={known[each.runs_on].address}\n"
        for each in deployed(settings)
        if each.tier == "collector" and each.runs_on in known
    )
