"""The kinds of units that there are."""

from __future__ import annotations

from sluice_hosts.jobs.places import JOBS
from sluice_hosts.units.agents import Collectors, Edges
from sluice_hosts.units.jobs import Jobs
from sluice_hosts.units.kinds import Kind

KINDS: tuple[Kind, ...] = (Collectors(), Edges(), *map(Jobs, JOBS))
