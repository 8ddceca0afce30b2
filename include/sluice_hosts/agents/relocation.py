"""A collector goes to another host, exactly. Callers hold the deployment's lock.

Between two other hosts, the new process takes over from the old one:

1. The new version is copied, starts at the new host, and is ready. Nobody sends to it yet.
2. It is recorded at the new host. From now on the supervision keeps it there; the old process is a remnant.
3. The edges are told the new address. None of them is restarted.
4. The old source refuses blocks, so the edges connect again, to the new host; its channel drains; it stops.

After a crash before the second step the supervision ends what began at the new host, and the move can be
repeated. After the second step the supervision ends the move. An old host that is silent holds nothing up.

On this machine an agent's configuration is also the record of what is deployed. So a collector that comes
from here, or goes here, stops before it starts. After a crash in between, the supervision starts it.
"""

from __future__ import annotations

from sluice.collection import lifecycle, records
from sluice.collection.agent import AGENT_FILE, LOCAL, Agent, folder
from sluice.collection.deploy_plan import AgentChange
from sluice.collection.errors import HostUnreachable
from sluice.collection.hosting import machine_of
from sluice.collection.lifecycle import Log
from sluice.collection.render import Rendered
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings
from sluice_hosts.agents import remnants


def prepare(settings: Settings, rendered: Rendered, log: Log) -> None:
    """Copy the new version. Raises HostUnreachable, AgentError."""
    if brought := machine_of(settings, rendered.agent).bring(rendered.agent, _texts(rendered)):
        log(f"{rendered.agent.name}: {brought}")


def relocate(settings: Settings, old: Agent, change: AgentChange, log: Log) -> None:
    """Record a collector at the host of the change. Between two other hosts it runs there then.

    What the old host still has is then to be drained (`remnants`). Raises HostUnreachable and AgentError: the
    collector stays where it is if it does not start at the new host, or if its channel must drain first and
    does not.
    """
    rendered = change.rendered
    if rendered is None:
        raise ValueError(f"{change.agent} goes, it does not move")
    prepare(settings, rendered, log)
    new = rendered.agent
    if LOCAL in (old.runs_on, new.runs_on):
        _end(settings, old, log)
    else:
        remnants.add(settings, new)  # until it is recorded there
        lifecycle.start(settings, new, log, texts=_texts(rendered))
        lifecycle.await_ready(settings, [new])
        remnants.add(settings, old)
    # The host first: what a crash tears here is then a change at the new host, which a deployment makes good.
    write_whole(folder(settings, old.name) / AGENT_FILE, rendered.files[AGENT_FILE])
    records.write(settings, change)
    remnants.remove(settings, new)
    log(f"{old.name}: moves from {old.runs_on} to {new.runs_on}")


def _end(settings: Settings, old: Agent, log: Log) -> None:
    """Drain and stop a collector before it starts elsewhere."""
    try:
        lifecycle.stop(settings, old, log, must_drain=True)
    except HostUnreachable as error:
        remnants.add(settings, old)
        log(f"{old.name}: what is in its channel stays on {old.runs_on} until the host answers: {error}")


def _texts(rendered: Rendered) -> dict[str, str]:
    return {name: text for name, text in rendered.files.items() if name != AGENT_FILE}
