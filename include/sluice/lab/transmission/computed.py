"""Every assignor on every scenario, without a broker: what its own class answers."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sluice.assignment.base import Assignment, Group, Partition
from sluice.assignment.measures import Moves, by_load, by_number, counts, moves
from sluice.lab.transmission.rivals import ALL, Answer, ask
from sluice.lab.transmission.scenarios import SCENARIOS, Scenario
from sluice.lab.trials import Row

START = "start"
#: Milliseconds are the quickest of this many.
REPEATS = 20
#: Their members have random ids. All others' ids begin with the members' names.
RANDOM_IDS = ("kip848-uniform", "kip848-range")


def rows(scenarios: Sequence[str] = tuple(SCENARIOS), repeats: int = REPEATS) -> Iterator[Row]:
    """A row for each scenario, assignor and step.

    partitions: numbers by member. number, load: max / mean - 1 of the partitions' numbers, and of load over
    speed; least: the least possible load. moved, living: partitions with another owner than before; with both
    owners alive. rounds: that the protocol needs. milliseconds: to compute one round. numbers: what number
    can be, where it depends on the order of the members' ids, and these are random.
    """
    for name in scenarios:
        scenario = SCENARIOS[name]
        before: dict[str, Assignment] = {}
        for step, answers, numbers in zip(
            (None, *scenario.steps), _followed(scenario, ALL, repeats), _numbers(scenario), strict=True
        ):
            for assignor, answer in answers.items():
                moved = moves(before[assignor], answer.assignment) if step else Moves(0, 0)
                label = str(step) if step else START
                labels: Row = {"scenario": name, "strategy": assignor, "step": label}
                also: Row = {"numbers": numbers[assignor]} if assignor in numbers else {}
                yield labels | _row(scenario, answer, moved) | also
            before = {assignor: answer.assignment for assignor, answer in answers.items()}


def _followed(scenario: Scenario, assignors: Sequence[str], repeats: int) -> Iterator[dict[str, Answer]]:
    """What each assignor answers at the start and after each step."""
    groups = dict.fromkeys(assignors, scenario.group())
    before: dict[str, Assignment] = {}
    for step in (None, *scenario.steps):
        if step is not None:
            groups = {each: scenario.after(groups[each], step, before[each]) for each in assignors}
        answers = dict(zip(assignors, ask(list(groups.items()), repeats), strict=True))
        yield answers
        before = {assignor: answer.assignment for assignor, answer in answers.items()}


def _numbers(scenario: Scenario) -> list[dict[str, str]]:
    """For the start and each step: how uneven the numbers can be, over all orders of ids, by assignor.

    Empty where all members subscribe to the same: then another order only swaps members.
    """
    steps = 1 + len(scenario.steps)
    if len(set(scenario.topics.values())) == 1:
        return [{} for _ in range(steps)]
    found: list[dict[str, set[float]]] = [{name: set() for name in RANDOM_IDS} for _ in range(steps)]
    for order in itertools.permutations(scenario.topics):
        other = _renamed(scenario, dict(zip(scenario.topics, order, strict=True)))
        for numbers, answers in zip(found, _followed(other, RANDOM_IDS, 1), strict=True):
            for assignor, answer in answers.items():
                numbers[assignor].add(round(by_number(answer.assignment), 3))
    return [{name: " ".join(map(str, sorted(some))) for name, some in numbers.items()} for numbers in found]


def _renamed(scenario: Scenario, names: Mapping[str, str]) -> Scenario:
    """The scenario of members with other names."""
    return replace(
        scenario,
        topics={names[member]: topics for member, topics in scenario.topics.items()},
        speeds={names[member]: speed for member, speed in scenario.speeds.items()},
        steps=tuple(replace(step, what=names.get(step.what, step.what)) for step in scenario.steps),
    )


def least(scenario: Scenario, members: Sequence[str]) -> float:
    """The least unevenness of load that any assignment has; 0 where subscriptions differ or all is equal.

    Partitions of one load are alike, so what counts is how many of each load a member gets.
    """
    if len(set(scenario.topics.values())) > 1 or not (scenario.loads or scenario.speeds):
        return 0.0
    every = [Partition(topic, n) for topic, count in scenario.partitions.items() for n in range(count)]
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


def whole(group: Group, answer: Answer) -> bool:
    """Whether every partition has exactly one owner, which subscribes to it."""
    topics = {member.id: member.topics for member in group.members}
    held = [(member, each) for member, some in answer.assignment.items() for each in some]
    allowed = all(each.topic in topics[member] for member, each in held)
    return allowed and sorted(each for _, each in held) == group.all_partitions()


def _row(scenario: Scenario, answer: Answer, moved: Moves) -> Row:
    assignment = answer.assignment
    every: list[Partition] = [each for held in assignment.values() for each in held]
    speeds = {member: scenario.speed(member) for member in assignment}
    numbers = counts(assignment)
    text = "/".join(map(str, numbers)) if len(numbers) <= len("C0C1C2") else f"{min(numbers)}-{max(numbers)}"
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
