"""The laboratory's streams: known frequencies, drift, files."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.arrays import Hashes
from sluice.tasks.extract import Extract
from sluice.traffic.generate import batches
from sluice.traffic.replay import ReplayError
from sluice_lab import clusters, isp, named, streams
from sluice_lab.drift import Drift
from sluice_lab.recorded_streams import recorded
from sluice_lab.streams import Independent, Inversion, NoSuchStream, keys_of

TOP = keys_of(np.array([0]))[0]


def share(keys: Hashes, key: np.uint64 = TOP) -> float:
    return float((keys == key).mean())


def test_isp_is_what_the_paper_says_except_for_the_top_ten() -> None:
    """The expectation at 25 M visits against paper 000, 3.3.1 and table 1."""
    visits = isp.frequencies() * 25_000_000
    assert len(visits) == 15_104
    assert visits.sum() == pytest.approx(25_000_000)
    assert visits[0] / 25e6 == pytest.approx(0.0901)
    assert visits[1:10].sum() / 25e6 == pytest.approx(0.125 - 0.0742)  # as in EDU
    assert (visits < 1_000).mean() == pytest.approx(0.74, abs=5e-4)
    assert (visits > 10_000).mean() == pytest.approx(0.0379, abs=5e-5)
    assert (np.diff(visits) <= 0).all()
    assert visits[-1] > 5


@pytest.mark.parametrize(
    ("draw", "keys", "top", "top_ten"),
    [(streams.edu, 12_078, 0.0742, 0.125), (streams.isp, 15_104, 0.0901, 0.1409)],
    ids=["edu", "isp"],
)
def test_a_sample_has_the_frequencies(
    draw: Callable[[int, int], Hashes], keys: int, top: float, top_ten: float
) -> None:
    _, counts = np.unique(draw(200_000, 3), return_counts=True)
    counts.sort()
    assert len(counts) <= keys
    assert counts[-1] / 200_000 == pytest.approx(top, abs=0.003)  # five standard errors
    assert counts[-10:].sum() / 200_000 == pytest.approx(top_ten, abs=0.004)


def test_zipf_falls_by_its_exponent() -> None:
    probabilities = streams.zipf_stream(1.5, 1_000).probabilities
    assert probabilities.sum() == pytest.approx(1)
    assert probabilities[0] / probabilities[99] == pytest.approx(100**1.5)


@pytest.mark.slow
def test_zipf_has_ten_million_keys() -> None:
    keys = streams.zipf(10_000, 0.0, 10_000_000, seed=1)
    assert len(np.unique(keys)) > 9_980  # about five of 10,000 even draws coincide


@pytest.mark.parametrize(
    ("z", "keys"), [(-0.1, 10), (4.1, 10), (float("nan"), 10), (1.0, 0), (1.0, 10_000_001)]
)
def test_zipf_refuses_what_is_beyond_its_bounds(z: float, keys: int) -> None:
    with pytest.raises(NoSuchStream, match="keys"):
        streams.zipf(10, z, keys)


def test_a_seed_decides_the_tuples_and_not_the_keys() -> None:
    first, again, other = streams.edu(5_000, 1), streams.edu(5_000, 1), streams.edu(5_000, 2)
    assert (first == again).all()
    assert (first != other).any()
    assert share(first) == pytest.approx(share(other), abs=0.02)


def test_batches_are_different_tuples() -> None:
    stream = streams.edu_stream()
    assert (stream.batch(0, 1_000) != stream.batch(1, 1_000)).any()


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=40), st.integers(0, 1 << 32))
def test_inversion_finds_the_rank_that_a_search_finds(weights: list[float], seed: int) -> None:
    probabilities = np.array(weights) / sum(weights)
    found = Inversion(probabilities).ranks(200, np.random.default_rng(seed))
    cumulative = np.cumsum(probabilities)
    cumulative[-1] = 1.0
    uniform = np.random.default_rng(seed).random(200)
    assert found.tolist() == np.searchsorted(cumulative, uniform, side="right").tolist()


def test_keys_of_ranks_are_distinct() -> None:
    assert len(np.unique(keys_of(np.arange(100_000)))) == 100_000


def base() -> Independent:
    return Independent("base", np.array([0.4, 0.3, 0.2, 0.1]))


def key(rank: int) -> np.uint64:
    return keys_of(np.array([rank]))[0]


def test_the_hot_key_moves_in_the_middle_of_a_batch() -> None:
    stream = Drift(base(), "move", at=1.5)
    before, during, after = (stream.batch(number, 20_000) for number in range(3))
    assert share(before, key(0)) == pytest.approx(0.4, abs=0.02)
    assert share(during[:10_000], key(0)) == pytest.approx(0.4, abs=0.03)
    assert share(during[:10_000], key(4)) == 0
    assert share(during[10_000:], key(0)) == 0
    assert share(during[10_000:], key(4)) == pytest.approx(0.4, abs=0.03)
    assert share(after, key(4)) == pytest.approx(0.4, abs=0.02)


def test_keys_trade_places() -> None:
    stream = Drift(base(), "swap", at=1.0)
    before, after = stream.batch(0, 20_000), stream.batch(1, 20_000)
    for rank, frequency in enumerate((0.4, 0.3, 0.2, 0.1)):
        assert share(before, key(rank)) == pytest.approx(frequency, abs=0.02)
        assert share(after, key({0: 2, 2: 0}.get(rank, rank))) == pytest.approx(frequency, abs=0.02)


@pytest.mark.parametrize(("kind", "before", "after"), [("appear", 0.0, 0.25), ("fade", 0.25, 0.0)])
def test_a_key_appears_or_fades_gradually(kind: str, before: float, after: float) -> None:
    stream = Drift(base(), kind, at=1.0, over=1.0, share=0.25)  # type: ignore[arg-type]
    shares = [share(stream.batch(number, 20_000), key(4)) for number in range(3)]
    assert shares == pytest.approx([before, 0.125, after], abs=0.015)
    rest = stream.batch(0, 20_000)
    rest = rest[rest != key(4)]
    assert share(rest, key(0)) == pytest.approx(0.4, abs=0.02)  # the others keep their proportions


@pytest.mark.parametrize(
    "wrong", [{"at": -1.0}, {"over": -1.0}, {"share": 0.0}, {"share": 1.0}, {"kind": "leap"}]
)
def test_drift_refuses_what_is_beyond_its_bounds(wrong: dict[str, float]) -> None:
    with pytest.raises(NoSuchStream):
        Drift(base(), **{"kind": "move", **wrong})  # type: ignore[arg-type]


LINES = b"a;1\nb;1\r\na;2\n\nc\n"


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_the_lines_of_a_file_are_keys(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("lines.gz" if packed else "lines")
    path.write_bytes(gzip.compress(LINES) if packed else LINES)
    keys = recorded(path).keys
    assert len(keys) == 5
    assert len(np.unique(keys)) == 5


def test_a_field_of_a_file_is_the_key_and_lines_without_it_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(LINES)
    first = recorded(path, Extract(delimiter=";", index=1)).keys
    assert len(first) == 3
    assert first[0] == first[1] != first[2]
    assert (
        recorded(path, Extract(regex="^([ab]);")).keys.tolist()
        == recorded(path, Extract(regex="^[ab]")).keys.tolist()
    )


@pytest.mark.slow
def test_an_access_log_has_named_fields(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"".join(batches(2_000, seed=1)))
    statuses = recorded(path, Extract(field="status")).keys
    assert len(statuses) == 2_000
    assert len(np.unique(statuses)) == 8


def test_a_recorded_stream_begins_again_after_its_end(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\nc\n")
    stream = recorded(path)
    a, b, c = stream.keys
    assert stream.batch(0, 2).tolist() == [a, b]
    assert stream.batch(1, 2).tolist() == [c, a]


def test_a_file_without_keys_is_no_stream(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(LINES)
    with pytest.raises(NoSuchStream, match="no line has a key; 5 lines were read"):
        recorded(path, Extract(regex="(z+)"))


def test_a_file_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(LINES)[:-9])
    with pytest.raises(ReplayError, match="damaged"):
        recorded(path)


@pytest.mark.parametrize(
    ("name", "known_as"),
    [
        ("edu", "edu"),
        ("isp", "isp"),
        ("zipf:1.4", "zipf:1.4:1000000"),
        ("zipf:0.5:1000", "zipf:0.5:1000"),
        ("move:isp", "move:isp"),
        ("fade@2.5:zipf:1:10", "fade:zipf:1:10"),
    ],
)
def test_streams_have_names(name: str, known_as: str) -> None:
    assert named.stream(name).name == known_as


def test_a_drift_happens_when_its_name_says() -> None:
    stream = named.stream("move@2.5:edu")
    assert isinstance(stream, Drift)
    assert stream.at == 2.5


@pytest.mark.parametrize(
    "name", ["", "dude", "zipf", "zipf:much", "zipf:1:few", "file:", "move@soon:edu", "move:file:x"]
)
def test_other_names_are_no_streams(name: str) -> None:
    with pytest.raises(NoSuchStream, match=r"zipf:Z\[:KEYS\]"):
        named.stream(name)


def test_workers_have_the_times_of_the_paper() -> None:
    times = clusters.network(8, service=100.0).times
    assert times == (100.1, 100.1, 120.0, 120.0, 300.0, 300.0, 450.0, 450.0)


def test_clusters_have_names() -> None:
    assert named.cluster("equal", 3).times == (1.0, 1.0, 1.0)
    assert named.cluster("slow", 3).times == (1.0, 1.0, 4.0)
    assert named.cluster("spread", 4).times == pytest.approx((1.0, 2.0, 3.0, 4.0))
    assert named.cluster("1,1,2.5", 3).times == (1.0, 1.0, 2.5)


@pytest.mark.parametrize(("name", "workers"), [("fast", 3), ("1,2", 3), ("1,-2", 2), ("", 1), ("equal", 0)])
def test_other_times_are_refused(name: str, workers: int) -> None:
    with pytest.raises(ValueError, match=r"times|workers"):
        named.cluster(name, workers)
