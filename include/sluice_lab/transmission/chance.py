"""What an assignor can make of a scenario, where that depends on ids that the members get by chance.

A client of KIP-848 makes its own id, a random one, each time it joins. The broker's assignors go by the order
of these ids, so a scenario has several outcomes. They are found by walks: one begins with random ids, and a
member that comes back gets another one; one that only stood still keeps its own.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sluice.assignment.base import Assignment, Group
from sluice.assignment.evaluation import Moves, counts, moves, unevenness
from sluice_lab.transmission.rivals import ask
from sluice_lab.transmission.scenarios import GroupScenario, ScenarioStep
from sluice_lab.trials import Row

#: Their members have random ids. All others' ids begin with the members' names.
RANDOM_IDS = ("kip848-uniform", "kip848-range")
#: The rarest outcome of these scenarios has a chance of about 1 in 36 in each walk.
WALKS = 400


class StepOutcome(NamedTuple):
    """How a step ended. partitions: how many the members have, fewest first, such as 1/3/9."""

    partitions: str
    moved: int
    living: int

    def __str__(self) -> str:
        return f"{self.partitions}:{self.moved}:{self.living}"

    @classmethod
    def of(cls, row: Row) -> StepOutcome:
        """That of a row: computed of few members, or of a live phase."""
        numbers = sorted(map(int, str(row["partitions"]).split("/")))
        return cls("/".join(map(str, numbers)), int(row["moved"]), int(row["living"]))

    def number(self) -> float:
        """The unevenness of the numbers of partitions."""
        return unevenness({str(n): float(each) for n, each in enumerate(self.partitions.split("/"))})


def written(outcomes: set[StepOutcome]) -> str:
    """The outcomes as text for a row, in order."""
    return " ".join(str(each) for each in sorted(outcomes))


def read(text: object) -> list[StepOutcome]:
    """The outcomes of such a text."""
    parts = [each.split(":") for each in str(text).split()]
    return [StepOutcome(partitions, int(moved), int(living)) for partitions, moved, living in parts]


@dataclass
class _Walk:
    """One way through a scenario. ids: the members' present ones, by name."""

    assignor: str
    group: Group
    ids: dict[str, str]
    before: Assignment

    def asked(self) -> Group:
        """The group as the broker knows it."""
        members = tuple(replace(each, id=self.ids[each.id]) for each in self.group.members)
        return replace(self.group, members=members)

    def named(self, assignment: Assignment) -> Assignment:
        names = {self.ids[member.id]: member.id for member in self.group.members}
        return {names[member]: held for member, held in assignment.items()}


def outcomes(
    scenario: GroupScenario, assignors: Sequence[str] = RANDOM_IDS, walks: int = WALKS
) -> list[dict[str, set[StepOutcome]]]:
    """For the start and each step: what can be, by assignor. The same walks each time."""
    chance = random.Random(scenario.name)  # noqa: S311 - no secret
    under_way = [
        _Walk(name, scenario.group(), _ids(scenario.topics, chance), {})
        for name in assignors
        for _ in range(walks)
    ]
    found: list[dict[str, set[StepOutcome]]] = []
    for step in (None, *scenario.steps):
        if step is not None:
            for walk in under_way:
                _take(walk, scenario, step, chance)
        reached: dict[str, set[StepOutcome]] = {name: set() for name in assignors}
        answers = ask([(walk.assignor, walk.asked()) for walk in under_way])
        for walk, answer in zip(under_way, answers, strict=True):
            after = walk.named(answer.assignment)
            moved = moves(walk.before, after) if step else Moves(0, 0)
            numbers = "/".join(map(str, sorted(counts(after))))
            reached[walk.assignor].add(StepOutcome(numbers, *moved))
            walk.before = after
        found.append(reached)
    return found


def _take(walk: _Walk, scenario: GroupScenario, step: ScenarioStep, chance: random.Random) -> None:
    walk.group = scenario.after(walk.group, step, walk.before)
    if step.kind == "join":
        walk.ids |= _ids({step.what: ()}, chance)


def _ids(names: Mapping[str, object], chance: random.Random) -> dict[str, str]:
    """A random id for each name; their order as texts is random."""
    return {name: f"{chance.getrandbits(64):016x}" for name in names}
