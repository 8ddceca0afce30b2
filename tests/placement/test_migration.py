"""Paper 004's migration does what the paper says, to the point where it stalls; the mended one goes on."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given

from sluice.placement.base import Cluster, HostSlots, Unit
from sluice.placement.measures import moves
from sluice.placement.migration import MENDED, PAPER, migrate, queue, queues
from sluice.placement.usage import low_usage_first, mean_usage, slots_used
from tests.examples import examples
from tests.placement.clusters import clusters, slots


def used(cluster: Cluster, placed: dict[str, str]) -> list[int]:
    return list(slots_used(cluster, placed).values())


def test_low_usage_first_gives_the_papers_hosts_4_3_and_3_slots() -> None:
    workers = {"t1": 2, "t2": 2, "t3": 2, "t4": 4}
    units = tuple(Unit(f"{t}-{n}", application=t) for t, count in workers.items() for n in range(count))
    cluster = Cluster(tuple(HostSlots(f"h{n}", 8) for n in range(1, 4)), units)
    placed = low_usage_first(cluster)
    assert used(cluster, placed) == [4, 3, 3]
    assert {placed["t1-0"], placed["t1-1"]} == {"h1", "h2"}


def test_the_queues_are_the_papers() -> None:
    cluster = slots(5, 4, 1, 0, 0)
    assert mean_usage(cluster, dict(cluster.placed)) == Fraction(1, 4)
    assert list(queues(cluster, dict(cluster.placed)).values()) == ["over", "over", "below", "under", "under"]
    mean, edge = Fraction(1, 4), Fraction(15, 100)
    assert [queue(mean + d, mean) for d in (edge, -edge, Fraction(0))] == ["above", "below", "mean"]


def test_to_the_letter_it_stalls_from_the_papers_own_placement() -> None:
    found = migrate(slots(4, 3, 3, 0, 0), PAPER)
    assert used(slots(4, 3, 3, 0, 0), found.placed) == [2, 3, 3, 2, 0]
    assert (len(found.moves), found.stalled) == (2, True)


def test_with_hdfs_pairs_it_ends_even_in_four_moves() -> None:
    found = migrate(slots(4, 3, 3, 0, 0), MENDED)
    assert used(slots(4, 3, 3, 0, 0), found.placed) == [2, 2, 2, 2, 2]
    assert (len(found.moves), found.stalled) == (4, False)


@pytest.mark.parametrize("pairs", [PAPER, MENDED])
def test_from_storms_placement_both_end_even(pairs: object) -> None:
    found = migrate(slots(5, 4, 1, 0, 0), pairs)  # type: ignore[arg-type]
    assert used(slots(5, 4, 1, 0, 0), found.placed) == [2, 2, 2, 2, 2]
    assert (len(found.moves), found.stalled) == (5, False)


@pytest.mark.slow
@given(cluster=clusters())
@examples(150)
def test_it_ends_fits_and_moves_no_unit_twice_in_vain(cluster: Cluster) -> None:
    placed = low_usage_first(cluster.having({}))
    start = cluster.having(placed)
    for pairs in (PAPER, MENDED):
        found = migrate(start, pairs)
        assert found.placed.keys() == placed.keys()
        assert all(used <= host.slots for host, used in zip(
            start.hosts, slots_used(start, found.placed).values(), strict=True))  # fmt: skip
        assert moves(placed, found.placed) <= len(found.moves)
        left = queues(start, found.placed).values()
        assert found.stalled == ("over" in left or "under" in left)
