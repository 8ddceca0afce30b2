"""Groups, and what happens to them: members that leave and come back, and partitions that are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sluice.assignment.base import AssignedPartition, Assignment, Group, Member, PartitionLoad

MEGABYTE = 1e6
#: On live brokers: bytes a second of all partitions of paper 003's group, and of an ordinary member.
ARRIVES, PROCESSED = 3.9e6, 2.4e6
#: One partition has five times the load of the others. EDU's most frequent key gives it that in a topic of
#: 50 partitions, which share what all other keys have.
HOT, HOT_PARTITIONS = 5.0, 50


_SIGNS = {"leave": "- ", "join": "+ ", "freeze": "! ", "thaw": "~ ", "grow": ""}


@dataclass(frozen=True)
class ScenarioStep:
    """One thing that happens. what: a member's id, or `topic=partitions` for a topic that grows."""

    kind: Literal["leave", "join", "freeze", "thaw", "grow"]
    what: str

    def __str__(self) -> str:
        return f"{_SIGNS[self.kind]}{self.what}"

    def told(self) -> str:
        """What happens, in words."""
        match self.kind:
            case "leave":
                return f"{self.what} leaves"
            case "join":
                return f"{self.what} comes back"
            case "freeze":
                return f"{self.what} stands still"
            case "thaw":
                return f"{self.what} goes on"
            case "grow":
                topic, count = self.grows()
                return f"{topic} grows to {count} partitions"

    def grows(self) -> tuple[str, int]:
        """The topic that grows, and how many partitions it has then."""
        topic, _, count = self.what.partition("=")
        return topic, int(count)


@dataclass(frozen=True)
class GroupScenario:
    """A group at its beginning, and the steps.

    topics: what each member subscribes to. speeds: the bytes a second of members that are not like the
    others. loads: the bytes a second of partitions that are not like the others. known: whether loads and
    speeds were measured before the beginning.
    """

    name: str
    title: str
    topics: Mapping[str, Sequence[str]]
    partitions: Mapping[str, int]
    steps: tuple[ScenarioStep, ...]
    speeds: Mapping[str, float] = field(default_factory=dict)
    loads: Mapping[AssignedPartition, float] = field(default_factory=dict)
    known: bool = False

    def speed(self, member: str) -> float:
        return self.speeds.get(member, MEGABYTE)

    def load(self, partition: AssignedPartition) -> float:
        return self.loads.get(partition, MEGABYTE)

    def most_partitions(self) -> dict[str, int]:
        """How many partitions each topic has after it has grown."""
        grown = (step.grows() for step in self.steps if step.kind == "grow")
        return {**self.partitions, **dict(grown)}

    def group(self) -> Group:
        """The group when nobody owns anything."""
        members = tuple(
            Member(name, frozenset(topics), speed=self.speed(name) if self.known else None)
            for name, topics in self.topics.items()
        )
        return self._loaded(Group(members, self.partitions))

    def after(self, group: Group, step: ScenarioStep, assignment: Assignment) -> Group:
        """The group that must be assigned after the step. assignment: what its members had before."""
        group = replace(
            group,
            members=tuple(
                replace(each, owned=frozenset(assignment[each.id]), generation=each.generation + 1)
                for each in group.members
            ),
        )
        match step.kind:
            case "leave" | "freeze":  # the group drops a member that stands still
                return replace(group, members=tuple(m for m in group.members if m.id != step.what))
            case "join" | "thaw":
                (fresh,) = (member for member in self.group().members if member.id == step.what)
                return replace(group, members=(*group.members, fresh))
            case "grow":
                topic, count = step.grows()
                return self._loaded(replace(group, partitions={**group.partitions, topic: count}))

    def _loaded(self, group: Group) -> Group:
        loads = (
            {each: PartitionLoad(self.load(each)) for each in group.all_partitions()} if self.known else {}
        )
        return replace(group, loads=loads)


def _away(*members: str) -> tuple[ScenarioStep, ...]:
    """Each leaves and comes back, one after the other."""
    return tuple(
        step for each in members for step in (ScenarioStep("leave", each), ScenarioStep("join", each))
    )


_PAPER = {"t0": 4, "t1": 4, "t2": 5}
_ALL = dict.fromkeys(("C0", "C1", "C2"), tuple(_PAPER))
_HOT = {AssignedPartition("t2", 0): HOT * MEGABYTE}
_SLOW = {"C2": MEGABYTE / 2}
_SIX = [f"C{n}" for n in range(6)]
_FIFTY = [f"C{n:02}" for n in range(50)]

PAPER = GroupScenario(
    "paper",
    "Paper 003's group: C0 {t0}, C1 {t0, t1}, C2 {t0, t1, t2}",
    {"C0": ("t0",), "C1": ("t0", "t1"), "C2": ("t0", "t1", "t2")},
    _PAPER,
    _away("C0"),
)
SCENARIOS = {
    each.name: each
    for each in (
        PAPER,
        GroupScenario(
            "skew", "One of 13 partitions has five times the load", _ALL, _PAPER, _away("C0"), {}, _HOT, True
        ),
        GroupScenario(
            "slow", "One of three members has half the speed", _ALL, _PAPER, _away("C0"), _SLOW, {}, True
        ),
        GroupScenario(
            "both", "A hot partition and a slow member", _ALL, _PAPER, _away("C0"), _SLOW, _HOT, True
        ),
        GroupScenario(
            "rolling", "Six members restart in turn", dict.fromkeys(_SIX, ("t",)), {"t": 24}, _away(*_SIX)
        ),
        GroupScenario("flapping", "C0 leaves and comes back five times", _ALL, _PAPER, _away(*["C0"] * 5)),
        GroupScenario(
            "frozen",
            "C0 stands still (SIGSTOP) until the group drops it, and goes on",
            _ALL,
            _PAPER,
            (ScenarioStep("freeze", "C0"), ScenarioStep("thaw", "C0")),
        ),
        GroupScenario(
            "growing", "t2 grows from 5 to 11 partitions", _ALL, _PAPER, (ScenarioStep("grow", "t2=11"),)
        ),
        GroupScenario(
            "large",
            "50 members and 1,000 partitions of 10 topics",
            {name: tuple(f"t{n}" for n in range(10)) for name in _FIFTY},
            {f"t{n}": 100 for n in range(10)},
            _away("C07"),
        ),
    )
}
