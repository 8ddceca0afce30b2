"""What the placement would do now, with what the last look found: no host is asked for an answer."""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from sluice.runtime.settings import get_settings
from sluice.storage.postgres import engine
from sluice_airflow.api.looks import Looks
from sluice_airflow.api.security import Reader
from sluice_hosts.units import proposals
from sluice_hosts.units.catalogue import KINDS
from sluice_hosts.units.proposals import Proposal
from sluice_hosts.units.view import HostState

router = APIRouter(tags=["placement"])


class PlacementHostOut(BaseModel):
    """A host."""

    host: str
    state: HostState = Field(
        description="open: it takes units. away: it is silent, and its units go elsewhere. waiting: it is "
        "silent, but not long enough. shut: it may have no units. barred: nothing can be done there now."
    )
    why: str = Field(description="Why it is not open.")
    slots: int
    speed: float | None = Field(description="Reference cores that units have there; null: not measured.")


class PlacementUnitOut(BaseModel):
    """A unit, and what it uses; null: not measured for long enough."""

    unit: str
    host: str
    movable: bool
    group: str | None = Field(description="No two units of a group are on one host.")
    cpu: float | None = Field(description="Reference cores.")
    events: float | None = Field(description="Blocks of lines a second.")
    fill: float | None = Field(description="Of its channel, in per cent.")


class PlacementMoveOut(BaseModel):
    """A move. What is in one step may happen at the same time."""

    step: int | None = Field(description="null: the unit has no place, and why.")
    unit: str
    source: str
    target: str | None
    why: str


class PlacementOut(BaseModel):
    """Hosts, units, and what would move."""

    at: datetime
    hosts: list[PlacementHostOut]
    units: list[PlacementUnitOut]
    moves: list[PlacementMoveOut]
    waiting: int = Field(description="Moves that wait for the budget.")
    left: int = Field(description="Moves that may still begin in this hour.")


_EXAMPLE: dict[str, Any] = {
    "at": "2015-05-17T10:05:03Z",
    "hosts": [
        {"host": "gather1", "state": "open", "why": "", "slots": 8, "speed": 3.8},
        {"host": "local", "state": "open", "why": "", "slots": 8, "speed": 1.2},
    ],
    "units": [
        {
            "unit": "collector:collector1",
            "host": "local",
            "movable": True,
            "group": "collector1, collector2",
            "cpu": 0.31,
            "events": 412.0,
            "fill": 2.0,
        }
    ],
    "moves": [
        {
            "step": 1,
            "unit": "collector:collector1",
            "source": "local",
            "target": "gather1",
            "why": "local is 62% busier than the mean",
        }
    ],
    "waiting": 0,
    "left": 4,
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"example": _EXAMPLE}}},
    409: {"description": "The hosts or the inventory cannot be used."},
    503: {"description": "Too many ask, or PostgreSQL does not answer; see `Retry-After`."},
}


@functools.cache
def looks() -> Looks[Proposal]:
    """Those of this server."""
    settings = get_settings()
    return Looks(lambda: proposals.propose(settings, engine(settings), KINDS), "the plan")


@router.get("/placement/plan", responses=_RESPONSES)
def get_plan(user: Reader, shared: Annotated[Looks[Proposal], Depends(looks)]) -> PlacementOut:
    """Which units would move now, and why; and all hosts and units, as the last look found them."""
    found = shared.report()
    view = found.view
    return PlacementOut(
        at=view.at,
        hosts=[
            PlacementHostOut(
                host=each.name, state=each.state, why=each.why, slots=each.slots, speed=each.speed
            )
            for each in view.hosts
        ],
        units=[
            PlacementUnitOut(
                unit=each.running.name,
                host=each.running.host,
                movable=each.running.movable,
                group=each.running.group,
                cpu=each.cpu,
                events=each.events,
                fill=each.fill,
            )
            for each in view.units
        ],
        moves=[
            PlacementMoveOut(step=step, unit=unit, source=source, target=target, why=why)
            for step, unit, source, target, why in found.rows()
        ],
        waiting=found.plan.waiting,
        left=found.left,
    )
