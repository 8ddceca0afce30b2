"""Every assignor on every scenario, without a broker: what its own class answers."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from sluice.assignment.base import AssignedPartition, Assignment, Group
from sluice.assignment.evaluation import Moves, by_load, by_number, counts, moves
from sluice_lab.transmission.chance import StepOutcome, outcomes, written
from sluice_lab.transmission.rivals import ALL, AssignorAnswer, ask
from sluice_lab.transmission.scenarios import SCENARIOS, GroupScenario
from sluice_lab.trials import Row

START = "start"
#: Milliseconds are the quickest of this many.
REPEATS = 20
#: Of more members, only the least and the greatest number of partitions are kept, and one outcome.
FEW = 6


def rows(scenarios: Sequence[str] = tuple(SCENARIOS), repeats: int = REPEATS) -> Iterator[Row]:
    """A row for each scenario, assignor and step.

    partitions: numbers by member. number, load: max / mean - 1 of the partitions' numbers, and of load over
    speed; least: the least possible load. moved, living: partitions with another owner than before; with both
    owners alive. rounds: that the protocol needs. milliseconds: to compute one round. possible: every outcome
    (`chance`), where it depends on the order of the members' ids, and these are random; the other figures are
    those of ids in the order of the members' names.
    """
    for name in scenarios:
        scenario = SCENARIOS[name]
        before: dict[str, Assignment] = {}
        for step, answers, possible in zip(
            (None, *scenario.steps), _followed(scenario, ALL, repeats), _possible(scenario), strict=True
        ):
            for assignor, answer in answers.items():
                moved = moves(before[assignor], answer.assignment) if step else Moves(0, 0)
                label = str(step) if step else START
                labels: Row = {"scenario": name, "strategy": assignor, "step": label}
                also: Row = {"possible": written(possible[assignor])} if assignor in possible else {}
                yield labels | _row(scenario, answer, moved) | also
            before = {assignor: answer.assignment for assignor, answer in answers.items()}


def _followed(
    scenario: GroupScenario, assignors: Sequence[str], repeats: int
) -> Iterator[dict[str, AssignorAnswer]]:
    """What each assignor answers at the start and after each step."""
    groups = dict.fromkeys(assignors, scenario.group())
    before: dict[str, Assignment] = {}
    for step in (None, *scenario.steps):
        if step is not None:
            groups = {each: scenario.after(groups[each], step, before[each]) for each in assignors}
        answers = dict(zip(assignors, ask(list(groups.items()), repeats), strict=True))
        yield answers
        before = {assignor: answer.assignment for assignor, answer in answers.items()}


def _possible(scenario: GroupScenario) -> list[dict[str, set[StepOutcome]]]:
    """What can be at the start and after each step; empty for a scenario of many members."""
    if len(scenario.topics) > FEW:
        return [{} for _ in (None, *scenario.steps)]
    return outcomes(scenario)


def least(scenario: GroupScenario, members: Sequence[str]) -> float:
    """The least unevenness of load that any assignment has; 0 where subscriptions differ or all is equal.

    Partitions of one load are alike, so what counts is how many of each load a member gets.
    """
    if len(set(scenario.topics.values())) > 1 or not (scenario.loads or scenario.speeds):
        return 0.0
    every = [
        AssignedPartition(topic, n) for topic, count in scenario.partitions.items() for n in range(count)
    ]
    alike = Counter(map(scenario.load, every))
    sizes = list(alike)

    @functools.cache
    def busiest(place: int, left: tuple[int, ...]) -> float:
        """The busiest of the members from that place on, when they share what is left."""
        speed = scenario.speed(members[place])
        if place == len(members) - 1:
            return sum(n * size for n, size in zip(left, sizes, strict=True)) / speed
        return min(
            max(
                sum(n * size for n, size in zip(taken, sizes, strict=True)) / speed,
                busiest(place + 1, tuple(have - n for have, n in zip(left, taken, strict=True))),
            )
            for taken in itertools.product(*(range(have + 1) for have in left))
        )

    level = sum(map(scenario.load, every)) / sum(map(scenario.speed, members))
    return busiest(0, tuple(alike.values())) / level - 1


def whole(group: Group, answer: AssignorAnswer) -> bool:
    """Whether every partition has exactly one owner, which subscribes to it."""
    topics = {member.id: member.topics for member in group.members}
    held = [(member, each) for member, some in answer.assignment.items() for each in some]
    allowed = all(each.topic in topics[member] for member, each in held)
    return allowed and sorted(each for _, each in held) == group.all_partitions()


def _row(scenario: GroupScenario, answer: AssignorAnswer, moved: Moves) -> Row:
    assignment = answer.assignment
    every: list[AssignedPartition] = [each for held in assignment.values() for each in held]
    speeds = {member: scenario.speed(member) for member in assignment}
    numbers = counts(assignment)
    text = "/".join(map(str, numbers)) if len(numbers) <= FEW else f"{min(numbers)}-{max(numbers)}"
    return {
        "partitions": text,
        "number": by_number(assignment),
        "load": by_load(assignment, {each: scenario.load(each) for each in every}, speeds),
        "least": least(scenario, sorted(assignment)),
        "moved": moved.all,
        "living": moved.living,
        "rounds": answer.rounds,
        "milliseconds": answer.milliseconds,
    }
