"""A collector goes to another host, exactly. Callers hold the deployment's lock.

1. Its new version is copied to the new host. Until then nothing else happens.
2. Its source refuses blocks, so the edges send to their other collectors; its channel drains to Kafka; it
   stops.
3. It is recorded at the new host. From now on the supervision starts it there, and nowhere else.
4. It starts there, and the edges are told its address. None of them is restarted.

After a crash before the third step the supervision starts it where it was, and the move can be repeated.
After the third step the supervision ends the move. What a silent host still has becomes a remnant.
"""

from __future__ import annotations

from sluice.collection import lifecycle, records, remnants, remote
from sluice.collection.deploy_plan import Change
from sluice.collection.hosts import LOCAL
from sluice.collection.lifecycle import Log
from sluice.collection.render import AGENT_FILE, Agent, Rendered, folder
from sluice.collection.ssh import HostUnreachable
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings


def prepare(settings: Settings, rendered: Rendered, log: Log) -> None:
    """Copy the new version. Raises HostUnreachable, AgentError."""
    if rendered.agent.runs_on != LOCAL:
        texts = {name: text for name, text in rendered.files.items() if name != AGENT_FILE}
        remote.prepare(settings, rendered.agent, texts, log)


def speaks_tls(settings: Settings, collector: Agent) -> bool:
    """Whether a deployed collector does; edges and collectors begin that together, in a deployment."""
    return ".hold = " in (folder(settings, collector.name) / "agent.properties").read_text()


def relocate(settings: Settings, old: Agent, change: Change, log: Log) -> None:
    """Take a collector from its host to that of the change, and record it there; it is not started yet.

    Raises HostUnreachable if the new host does not answer, and AgentError if the channel does not drain;
    then it stays where it is.
    """
    rendered = change.rendered
    if rendered is None:
        raise ValueError(f"{change.agent} goes, it does not move")
    prepare(settings, rendered, log)
    try:
        lifecycle.stop(settings, old, log, must_drain=True)
    except HostUnreachable as error:
        remnants.add(settings, old)
        log(f"{old.name}: what is in its channel stays on {old.runs_on} until the host answers: {error}")
    # The host first: what a crash tears here is then a change at the new host, which a deployment makes good.
    write_whole(folder(settings, old.name) / AGENT_FILE, rendered.files[AGENT_FILE])
    records.write(settings, change)
    remnants.remove(settings, rendered.agent)
    log(f"{old.name}: moves from {old.runs_on} to {rendered.agent.runs_on}")
