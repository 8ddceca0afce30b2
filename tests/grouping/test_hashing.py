from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping.base import WorkerCluster
from sluice.grouping.candidates import Hashed, hashed
from sluice.grouping.hashing import mix, second_worker, worker_of
from tests.grouping import plain

KEYS = st.one_of(st.integers(0, 1_000), st.integers(0, plain.ALL_BITS))
WORKERS = st.one_of(st.integers(1, 70), st.integers(1, 1 << 16))


def candidates(key: int, count: int, workers: int, seed: int) -> list[int]:
    """What the kernel writes into a buffer that shows which places it leaves alone."""
    written = np.full(workers, -7, np.int32)
    found = hashed(Hashed.of(WorkerCluster.alike(workers), seed), np.uint64(key), count, written)
    assert set(written[found:].tolist()) <= {-7}
    return written[:found].tolist()


def test_mix_is_splitmix64() -> None:
    """The first outputs of Vigna's splitmix64.c from state 0."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [int(mix(np.uint64(0), np.uint64(n))) for n in range(3)] == published


@given(KEYS, KEYS)
def test_mix_equals_its_plain_version(key: int, seed: int) -> None:
    assert int(mix(np.uint64(key), np.uint64(seed))) == plain.mix(key, seed)


@given(KEYS, WORKERS)
def test_a_hash_names_the_worker_at_its_share_of_the_range(key: int, workers: int) -> None:
    assert worker_of(np.uint64(key), workers) == plain.worker_of(key, workers)


@pytest.mark.parametrize("workers", [1, 2, 3, 1000, 1 << 16])
def test_the_least_hash_names_the_first_worker_and_the_greatest_the_last(workers: int) -> None:
    """A hash is never made absolute, so it cannot be negative."""
    assert worker_of(np.uint64(0), workers) == 0
    assert worker_of(np.uint64(1 << 63), workers) == workers // 2
    assert worker_of(np.uint64(plain.ALL_BITS), workers) == workers - 1


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 5, 64])
def test_small_integers_fall_evenly_on_all_pairs_of_workers(workers: int) -> None:
    keys = 400 * workers * (workers - 1)
    pairs = np.zeros((workers, workers))
    for key in np.arange(min(keys, 100_000), dtype=np.uint64):
        first = worker_of(mix(key, np.uint64(0)), workers)
        pairs[first, second_worker(key, np.uint64(1), first, workers)] += 1
    assert np.diag(pairs).sum() == 0
    cells = pairs[~np.eye(workers, dtype=bool)]
    expected = cells.mean()
    # Chi-square over its degrees of freedom is 1 +- sqrt(2 / cells); the bound is five deviations.
    assert ((cells - expected) ** 2 / expected).sum() / (len(cells) - 1) < 1 + 5 * (2 / len(cells)) ** 0.5


def test_the_second_worker_is_the_first_only_where_there_is_no_other() -> None:
    assert second_worker(np.uint64(5), np.uint64(1), 0, 1) == 0


@pytest.mark.slow
@given(KEYS, st.integers(1, 100), WORKERS, st.integers(-3, 1 << 70))
def test_candidates_equal_their_plain_version(key: int, count: int, workers: int, seed: int) -> None:
    in_64_bits = (2 * seed % (1 << 64)) // 2
    if workers <= 70:
        assert candidates(key, count, workers, seed) == plain.candidates(key, count, workers, in_64_bits)
    else:
        assert candidates(key, 2, workers, seed) == plain.candidates(key, 2, workers, in_64_bits)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6, 12, 17, 60, 64, 1000])
def test_as_many_candidates_as_workers_are_all_workers(workers: int) -> None:
    """No two candidates coincide, even if the step and the number of workers share a divisor."""
    for key in range(50):
        assert sorted(candidates(key, workers, workers, 0)) == list(range(workers))
        assert sorted(candidates(key, workers + 1, workers, 0)) == list(range(workers))


@pytest.mark.slow
def test_a_key_that_gets_more_candidates_keeps_its_old_ones() -> None:
    for key in range(50):
        every = candidates(key, 64, 64, 3)
        assert all(candidates(key, count, 64, 3) == every[:count] for count in range(1, 65))


@pytest.mark.slow
def test_another_seed_names_other_workers() -> None:
    same = sum(candidates(key, 1, 100, 0) == candidates(key, 1, 100, 1) for key in range(2_000))
    assert 5 <= same <= 40  # 20 by chance
    crossed = sum(candidates(key, 2, 100, 0)[1:] == candidates(key, 1, 100, 1) for key in range(2_000))
    assert 5 <= crossed <= 40
