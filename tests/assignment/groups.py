"""Groups that tests make up, and the plain oracles that assignments are held against."""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from sluice.assignment.base import AssignedPartition, Assignment, Group, Member, PartitionLoad

TOPICS = ("t0", "t1", "t2")
#: Paper 003's topics and subscriptions.
PAPER = {"t0": 4, "t1": 4, "t2": 5}
C0 = Member("C0", frozenset({"t0"}))
C1 = Member("C1", frozenset({"t0", "t1"}))
C2 = Member("C2", frozenset({"t0", "t1", "t2"}))


@st.composite
def groups(
    draw: st.DrawFn, *, most: int = 8, members: int = 6, alike: bool = False, measured: bool | None = None
) -> Group:
    """A group with some claims (a few of them wrong or double), loads and speeds.

    most: partitions a topic. alike: all subscribe to everything. measured: whether loads and speeds are
    there; None: some are.
    """
    partitions = {topic: draw(st.integers(0, most)) for topic in TOPICS}
    every = [AssignedPartition(topic, n) for topic, count in partitions.items() for n in range(count + 1)]
    ids = draw(st.lists(st.integers(0, 99), min_size=1, max_size=members, unique=True))
    if measured is None:
        measured = draw(st.booleans())
    speeds = st.none() | st.floats(0, 1e9) if measured else st.none()
    made = tuple(
        Member(
            f"m{number:02}",
            frozenset(TOPICS) if alike else draw(st.frozensets(st.sampled_from(TOPICS))),
            draw(st.frozensets(st.sampled_from(every), max_size=most)),
            draw(speeds),
            draw(st.integers(0, 2)),
        )
        for number in ids
    )
    amounts = st.floats(0, 1e9)
    loads = st.dictionaries(st.sampled_from(every), st.builds(PartitionLoad, amounts, amounts))
    return Group(made, partitions, draw(loads) if measured else {})


def owning(group: Group, assignment: Assignment, *, without: str = "") -> Group:
    """The group after its members took over that assignment; one of them may have left."""
    members = tuple(
        Member(each.id, each.topics, frozenset(assignment.get(each.id, ())), each.speed)
        for each in group.members
        if each.id != without
    )
    return Group(members, group.partitions, group.loads)


def fewest(group: Group) -> list[int]:
    """The numbers of partitions in the most even assignment, most first, by trying all of them."""
    takers = [
        [member.id for member in group.members if each.topic in member.topics]
        for each in group.all_partitions()
    ]
    tried = (
        sorted((chosen.count(member.id) for member in group.members), reverse=True)
        for chosen in product(*takers)
    )
    return min(tried)


def fewest_moves(owned: list[int], partitions: int) -> int:
    """How many partitions must leave their owners, so that no two numbers differ by more than one."""
    least, more = divmod(partitions, len(owned))
    goal = [least + (place < more) for place in range(len(owned))]
    return sum(max(0, have - may) for have, may in zip(sorted(owned, reverse=True), goal, strict=True))
