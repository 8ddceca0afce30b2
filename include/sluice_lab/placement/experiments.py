"""The experiments that docs/placement.md reports; docs/placement keeps their rows as JSON.

paper: paper 004's experiment. random: every contender on random inputs. optimum: ours against the optimum
where inputs are small. distance: greedy steps, ours and the lower bound against an exact search. large: how
long a plan takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sluice.runtime.settings import ROOT
from sluice_lab.placement import computed
from sluice_lab.placement.distance import distance_rows
from sluice_lab.placement.inputs import INPUTS, SEED
from sluice_lab.saved_rows import keep
from sluice_lab.trials import Row

FOLDER = ROOT / "docs" / "placement"
NAMES = ("paper", "random", "optimum", "distance", "large")


def compute(
    names: Sequence[str] = NAMES,
    inputs: int = INPUTS,
    optima: int = computed.OPTIMA,
    seed: int = SEED,
    folder: Path = FOLDER,
) -> None:
    """Compute these experiments, and keep their rows. inputs, optima: how many random ones; seed: which."""
    for name in names:
        keep(name, rows(name, inputs, optima, seed), folder)


def rows(name: str, inputs: int, optima: int, seed: int) -> list[Row]:
    """The rows of one experiment."""
    match name:
        case "paper":
            return list(computed.paper_rows())
        case "random":
            return list(computed.random_rows(inputs, seed))
        case "optimum":
            return list(computed.optimum_rows(optima, seed))
        case "distance":
            return list(distance_rows(inputs, seed))
        case "large":
            return list(computed.large_rows())
    raise ValueError(f"{name} is no experiment: use {', '.join(NAMES)}")
