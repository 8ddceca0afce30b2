"""The kinds of units that there are."""

from __future__ import annotations

from sluice.elsewhere.places import JOBS
from sluice.units.agents import Collectors, Edges
from sluice.units.jobs import Jobs
from sluice.units.kinds import Kind

KINDS: tuple[Kind, ...] = (Collectors(), Edges(), *map(Jobs, JOBS))
