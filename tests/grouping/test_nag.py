"""NAG against its plain version, and the properties of weighted round robin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.grouping.base import Counts, ParameterOutOfBounds, WorkerCluster
from sluice.grouping.nag import NAG
from tests.examples import examples
from tests.grouping import plain_papers as plain
from tests.grouping.paper_streams import skewed

TIMES = st.lists(st.floats(0.1, 350), min_size=1, max_size=9)


@examples(30)
@given(
    first=TIMES,
    factors=st.lists(st.floats(0.5, 2), max_size=3),
    source=st.integers(0, 20),
    adjust=st.sampled_from([0.0, 0.5, 1.0]),
    stream=st.integers(0, 1000),
)
@example(first=[1.0, 1.0, 1.0, 1.0, 1.5], factors=[0.759765625, 2.0, 1.0], source=0, adjust=0.5, stream=0)
def test_it_routes_as_the_plain_version(
    first: list[float], factors: list[float], source: int, adjust: float, stream: int
) -> None:
    clusters = [WorkerCluster(tuple(first))]
    clusters += [WorkerCluster(tuple(t * f ** (i % 3) for i, t in enumerate(first))) for f in factors]
    kernel, slow = (
        NAG(adjust=adjust).router(clusters[0], source=source),
        plain.NAG(clusters[0], source, adjust),
    )
    for cluster in clusters:
        kernel.window(cluster)
        slow.window(cluster)
        keys = skewed(200, stream)
        assert kernel.route(keys).tolist() == [slow.route(int(key)) for key in keys]


@examples(50)
@given(times=TIMES, tuples=st.integers(0, 500))
def test_no_worker_is_ever_more_than_one_tuple_ahead_of_another_by_weight(
    times: list[float], tuples: int
) -> None:
    targets = NAG().router(WorkerCluster(tuple(times))).route(skewed(tuples, 1))
    sent = np.bincount(targets, minlength=len(times))
    ends = sent * np.array(times)
    nexts = (sent + 1) * np.array(times)
    assert ends.max() <= nexts.min() * (1 + 1e-12)


def test_the_nearest_come_first() -> None:
    """Paper 001, table 1: workers in the same process, on the node, in the rack, and beyond."""
    targets = NAG().router(WorkerCluster((350.0, 200.0, 20.0, 100.0))).route(skewed(11, 1))
    assert targets[:6].tolist() == [2, 2, 2, 2, 2, 3]
    assert 0 not in targets


def test_alike_workers_take_turns_and_each_source_starts_elsewhere() -> None:
    for source in (0, 1, 5):
        targets = NAG().router(WorkerCluster.alike(4), source=source).route(skewed(10, 1))
        assert targets.tolist() == [(source + i) % 4 for i in range(10)]


def test_keys_do_not_matter() -> None:
    cluster = WorkerCluster((1.0, 2.0, 5.0))
    one, other = skewed(1_000, 1), skewed(1_000, 2)
    assert (NAG().router(cluster).route(one) == NAG().router(cluster).route(other)).all()


@pytest.mark.parametrize(("adjust", "share"), [(0.0, 1 / 2), (0.5, 5 / 13), (1.0, 1 / 5)])
def test_a_window_moves_the_weights_part_of_the_way(adjust: float, share: float) -> None:
    """Worker 0 turns out to be four times as slow: its weight of 1 becomes 1, 0.625 or 0.25."""
    strategy, cluster, measured = NAG(adjust=adjust), WorkerCluster((1.0, 1.0)), WorkerCluster((4.0, 1.0))
    nag = strategy.router(cluster)
    keys = skewed(10_000, 1)
    nag.route(keys)
    strategy.boundary([nag], measured, Counts.of(keys))
    assert (nag.route(keys) == 0).mean() == pytest.approx(share, abs=0.001)


@pytest.mark.parametrize("adjust", [-0.1, 1.1, float("nan")])
def test_parameters_out_of_bounds_are_refused(adjust: float) -> None:
    with pytest.raises(ParameterOutOfBounds, match="grouping nag: adjust"):
        NAG(adjust=adjust)
