"""Whether live brokers ended each phase of each run as it was computed.

Who of equal members has one partition more depends on which of them joined first, so what is compared is how
many partitions the members have, in whatever order of them, with what moved and what moved between living
members. Where members have random ids, a phase must be one of the outcomes that some order of ids gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sluice_lab.tables import TextBar, selected
from sluice_lab.transmission.chance import StepOutcome, read
from sluice_lab.transmission.rivals import ALL, KAFKAS
from sluice_lab.transmission.scenarios import SCENARIOS
from sluice_lab.trials import Row


def bars(scenario: str, computed: Sequence[Row], live: Sequence[Row]) -> Iterator[TextBar]:
    """A bar for each contender whose answer is determined. The rows are those of the scenario."""
    for name in determined(scenario):
        phases = selected(live, strategy=name)
        agreeing = sum(agrees(run, selected(computed, strategy=name)) for run in by_run(phases))
        chance = any("possible" in row for row in selected(computed, strategy=name))
        how = "as computed for one of the orders of ids" if chance else "as computed"
        yield TextBar(
            f"{scenario}: {name} on live brokers ends {how}",
            f"{agreeing} of {len(phases)} phases",
            agreeing == len(phases),
        )


def determined(scenario: str) -> tuple[str, ...]:
    """The contenders whose end can be computed.

    Ours is not among them where it goes by what it measured, because that differs from run to run.
    """
    return KAFKAS if SCENARIOS[scenario].known else ALL


def agrees(run: Sequence[Row], computed: Sequence[Row]) -> int:
    """How many phases of a run of one contender ended as computed. Both are in the order of the steps."""
    return sum(
        live["step"] == row["step"] and StepOutcome.of(live) in allowed(row)
        for live, row in zip(run, computed, strict=False)
    )


def allowed(row: Row) -> list[StepOutcome]:
    """How the step of this computed row may end."""
    return read(row["possible"]) if "possible" in row else [StepOutcome.of(row)]


def by_run(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each run, in their order."""
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append(row)
    return list(found.values())
