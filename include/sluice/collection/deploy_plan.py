"""What a deployment would change: the rendered configuration compared with the one on disk.

Planning changes nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sluice.collection import inventory
from sluice.collection.agent import AGENT_FILE, Agent, folder
from sluice.collection.render import Rendered, render
from sluice.runtime.settings import Settings

Action = Literal["create", "change", "remove", "unchanged"]
_SIGNS: dict[Action, str] = {"create": "+", "change": "~", "remove": "-", "unchanged": "="}


@dataclass(frozen=True)
class AgentChange:
    """What is to be done with one agent, and why."""

    agent: str
    tier: Literal["edge", "collector"]
    action: Action
    diff: str = ""  # unified, of every file that differs
    rendered: Rendered | None = None  # None for one that is removed


def plan(settings: Settings, path: Path | None = None) -> list[AgentChange]:
    """Compare the inventory (at ``path``, else the instance's) with what is deployed.

    Raises inventory.InventoryError before anything else if the inventory cannot be deployed.
    """
    wanted = render(inventory.load(settings, path), settings)
    there = {agent.name: agent for agent in deployed(settings)}
    moved = [
        f"front-end {name!r} runs on {there[name].runs_on}, not on {each.agent.runs_on}: its lines are known "
        "by its name, the file and the offset; give a front-end on another host another name"
        for name, each in wanted.items()
        if name in there and each.agent.tier == "edge" and there[name].runs_on != each.agent.runs_on
    ]
    if moved:
        raise inventory.InventoryError(path or inventory.path_of(settings), moved)
    changes = [_compare(settings, each, each.agent.name in there) for each in wanted.values()]
    return changes + [
        AgentChange(name, agent.tier, "remove") for name, agent in there.items() if name not in wanted
    ]


def describe(changes: Iterable[AgentChange]) -> str:
    """A line for each agent, followed by what differs in its files."""
    lines = []
    for change in changes:
        lines.append(f"{_SIGNS[change.action]} {change.agent} ({change.tier}): {change.action}")
        lines += [f"    {line}" for line in change.diff.splitlines()]
    return "\n".join(lines)


def deployed(settings: Settings) -> list[Agent]:
    """The agents whose configuration is on disk, collectors first, each tier by name."""
    found = sorted((settings.home / "flume").glob(f"*/{AGENT_FILE}"))
    agents = [Agent.from_json(path.read_text()) for path in found]
    return sorted(agents, key=lambda agent: agent.tier)


def _compare(settings: Settings, rendered: Rendered, known: bool) -> AgentChange:
    agent = rendered.agent
    if not known:
        return AgentChange(agent.name, agent.tier, "create", rendered=rendered)
    diff = "".join(_diff(folder(settings, agent.name) / name, text) for name, text in rendered.files.items())
    return AgentChange(agent.name, agent.tier, "change" if diff else "unchanged", diff, rendered)


def _diff(path: Path, text: str) -> str:
    before = path.read_text() if path.exists() else ""
    if before == text:
        return ""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        text.splitlines(keepends=True),
        f"deployed/{path.name}",
        f"inventory/{path.name}",
        n=1,
    )
    return "".join(lines)
