"""Collectors that stand in for each other are kept apart as far as the hosts allow."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sluice_hosts.units.groups import failover_groups

NAMES = [f"c{n}" for n in range(1, 8)]
lists = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=7, unique=True), max_size=8)


def rotated(count: int) -> list[list[str]]:
    """What an inventory has that names no collectors: all, in turn."""
    names = NAMES[:count]
    return [names[at:] + names[:at] for at in range(count)]


def sizes(found: list[list[str]], hosts: int) -> list[int]:
    groups = Counter(each.group for each in failover_groups(found, hosts).values() if each.group)
    return sorted(groups.values())


def test_all_of_a_list_are_apart_where_there_are_hosts_for_all() -> None:
    assert sizes(rotated(4), 4) == [4]
    assert sizes(rotated(4), 9) == [4]


def test_with_fewer_hosts_there_are_few_groups_of_even_size_and_with_one_host_none() -> None:
    assert sizes(rotated(4), 3) == [2, 2]
    assert sizes(rotated(5), 3) in ([2, 2], [2, 3])
    assert sizes(rotated(2), 1) == []
    assert sizes(rotated(2), 0) == []


def test_an_edge_with_two_collectors_has_them_apart_before_one_with_more() -> None:
    found = failover_groups([*rotated(4), ["c2", "c4"]], 2)
    assert found["c2"].group == found["c4"].group


def test_collectors_that_no_list_connects_are_no_group() -> None:
    found = failover_groups([["c1", "c2"], ["c3"]], 5)
    assert found["c1"].group == found["c2"].group == "c1, c2"
    assert found["c3"].group is None


@given(lists, st.integers(0, 8), st.integers(0, 99))
def test_a_group_fits_the_hosts_and_depends_on_no_order(
    given_lists: list[list[str]], hosts: int, seed: int
) -> None:
    found = failover_groups(given_lists, hosts)
    assert set(found) == {name for each in given_lists for name in each}
    assert all(size <= max(hosts, 1) for size in sizes(given_lists, hosts))
    families = {each.group: each.family for each in found.values() if each.group}
    assert all(each.family == families[each.group] for each in found.values() if each.group)
    shuffled = random.Random(seed).sample(given_lists, len(given_lists))  # noqa: S311 - no secret
    assert failover_groups(shuffled, hosts) == found


@given(lists)
def test_with_a_host_for_each_no_two_of_a_list_meet(given_lists: list[list[str]]) -> None:
    found = failover_groups(given_lists, len(NAMES))
    for each in given_lists:
        assert len({found[name].group for name in each}) == 1
        assert len(each) == 1 or found[each[0]].group is not None
