"""The kinds of units that there are."""

from __future__ import annotations

from sluice.units.agents import Collectors, Edges
from sluice.units.kinds import Kind

KINDS: tuple[Kind, ...] = (Collectors(), Edges())
