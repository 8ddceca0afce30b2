"""The agents on other hosts, as `sluice status` and `sluice logs` show them."""

from __future__ import annotations

from sluice.cli.output.format import printable
from sluice.collection import deploy
from sluice.collection.agent import Agent
from sluice.collection.at_once import by_machine
from sluice.collection.hosting import hosting, machine_of
from sluice.collection.machine import ProcessState
from sluice.runtime.settings import Settings
from sluice.stack.status import DaemonState, StatusLine

_STATES = {
    ProcessState.ALIVE: DaemonState.RUNNING,
    ProcessState.DEAD: DaemonState.DEAD,
    ProcessState.STOPPED: DaemonState.STOPPED,
}


def agents(settings: Settings) -> list[StatusLine]:
    """A line for each agent that is deployed on another host. Their memory is the host's business."""

    def ask(those: list[Agent]) -> list[StatusLine]:
        return [_line(settings, agent) for agent in those]

    found = by_machine(_elsewhere(settings), ask)
    return [*(line for lines in found for line in lines), *map(_left, hosting().left_behind(settings))]


def agent(settings: Settings, name: str) -> Agent | None:
    """The agent on another host whose process has that name."""
    return next((each for each in _elsewhere(settings) if each.process == name), None)


def logs(settings: Settings, agent: Agent, lines: int) -> list[str]:
    """The end of the agent's log and of what its process printed, which says why a JVM did not start."""
    shown = []
    for name in ("out", ""):
        found = machine_of(settings, agent).log_tail(agent, name).decode(errors="replace").splitlines()
        shown += [printable(line) for line in found[-lines:]]
    return shown


def _elsewhere(settings: Settings) -> list[Agent]:
    return [each for each in deploy.agents(settings) if not machine_of(settings, each).ours]


def _left(agent: Agent) -> StatusLine:
    """What a collector left behind on another host."""
    at = agent.runs_on
    return StatusLine(
        f"{agent.process}@{at}", DaemonState.UNKNOWN, 0, 0, f"moved; its channel is drained when {at} answers"
    )


def _line(settings: Settings, agent: Agent) -> StatusLine:
    try:
        state = _STATES[machine_of(settings, agent).status(agent).state]
    except Exception as error:  # a host may answer anything
        return StatusLine(agent.process, DaemonState.UNKNOWN, 0, 0, printable(str(error)))
    problem = {
        DaemonState.DEAD: f"see `sluice logs {agent.process}`",
        DaemonState.STOPPED: f"does not run on {agent.runs_on}",
    }
    return StatusLine(agent.process, state, 0, 0, problem.get(state, ""))
