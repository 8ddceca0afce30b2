from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.metrics.kernels.hashing import hash_all
from sluice.metrics.kernels.hll import DENSE, EXACT, REGISTERS
from sluice.metrics.packed import Damaged, buffers
from sluice.metrics.unique import HLL, STANDARD_ERROR
from tests.examples import examples
from tests.metrics.states import added, errors, merged, numeric, splits, textual, values


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0xEF46DB3751D8E999),
        ("a", 0xD24EC4F1A98C6E5B),
        ("abc", 0x44BC2CF5AD770999),
        ("Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_hashes_are_xxh64(text: str, hashed: int) -> None:
    assert hash_all(*buffers(pa.array(["x", text, text])[1:])).tolist() == [hashed] * 2


def test_distinct_texts_are_counted_by_group() -> None:
    columns = added(textual([0, 0, 0, 1, 1, 2], ["a", "b", "a", "a", "-", None], 4), "unique", "missing")
    assert values(columns, "unique") == [2, 1, 0, 0]
    assert values(columns, "missing") == [0, 1, 1, 0]
    assert errors(columns, "unique") == [0, 0, 0, 0]
    assert columns["hll"].is_null().to_pylist() == [False, False, True, True]


def test_of_numbers_only_numbers_count_and_as_written() -> None:
    batch = numeric([0, 0, 0], [1.0, np.nan, 1.0], 1)
    texts = textual([0, 0, 0], ["1.0", "x", "1"], 1).texts
    columns = added(type(batch)(batch.groups, 1, batch.measure, None, texts), "unique", "top2")
    assert values(columns, "unique") == [2]
    assert values(columns, "top2") == [[["1", 1], ["1.0", 1]]]


@pytest.mark.parametrize("count", [EXACT - 1, EXACT, EXACT + 1])
def test_exact_up_to_the_bound(count: int) -> None:
    texts = [f"v{i}" for i in range(count)]
    columns = added(textual([0] * count, texts, 1), "unique")
    exact = count <= EXACT
    assert errors(columns, "unique") == [0.0 if exact else STANDARD_ERROR]
    assert len(columns["hll"][0].as_py()) == (8 * count if exact else DENSE)
    if exact:
        assert values(columns, "unique") == [count]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_500, 3_000, 10_000, 50_000, 300_000])
def test_the_estimate_is_within_its_error(count: int) -> None:
    """The mean of the sets is within two standard errors of the truth, and each within four."""
    groups = np.repeat(np.arange(20), count) if count < 20_000 else np.repeat(np.arange(4), count)
    size = int(groups.max()) + 1
    texts = pa.array(np.arange(len(groups))).cast(pa.string())
    found = np.array(values(added(textual(groups, texts, size), "unique"), "unique"))
    assert (np.abs(found - count) < 4 * STANDARD_ERROR * count).all()
    assert abs(found.mean() - count) < 2 * STANDARD_ERROR * count


@pytest.mark.slow
@pytest.mark.parametrize("distinct", [10, 1_000, 1_100, 30_000])
def test_the_bytes_are_the_same_whatever_the_split(distinct: int) -> None:
    random = np.random.default_rng(distinct)
    texts = [f"/{n}" for n in random.integers(0, distinct, 40_000).tolist()]
    groups = random.integers(0, 3, len(texts))
    whole = added(textual(groups, texts, 3), "unique")["hll"]
    for parts in (2, 7, 40):
        states = [
            added(textual(groups[own], [texts[i] for i in own], 3), "unique")
            for own in splits(len(texts), parts, random)
        ]
        at_once = merged(3, *states)
        one_by_one = states[-1]
        for state in reversed(states[:-1]):
            one_by_one = merged(3, one_by_one, state)
        replayed = merged(3, at_once, states[0], one_by_one)  # a set takes no harm from doubles
        for other in (at_once, one_by_one, replayed):
            assert other["hll"].equals(whole)


@examples(40)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.text(max_size=5) | st.none()), max_size=30),
        min_size=1,
        max_size=4,
    )
)
def test_any_texts_in_any_split(parts: list[list[tuple[int, str | None]]]) -> None:
    rows = [row for part in parts for row in part]
    states = [added(textual([g for g, _ in part], [t for _, t in part], 3), "unique") for part in parts]
    whole = added(textual([g for g, _ in rows], [t for _, t in rows], 3), "unique")
    for order in (states, states[::-1]):
        assert merged(3, *order)["hll"].equals(merged(3, whole)["hll"])
    wanted = [len({t for g, t in rows if g == group and t not in (None, "", "-")}) for group in range(3)]
    assert values(whole, "unique") == wanted


@pytest.mark.parametrize("data", [b"\x00" * 5, b"\x00" * (8 * EXACT + 8), b"\x00" * REGISTERS * 3])
def test_a_damaged_state_is_refused(data: bytes) -> None:
    with pytest.raises(Damaged, match="a state of hll is damaged"):
        HLL.merge({"hll": pa.array([data])}, np.zeros(1, np.int64), 1)


def test_no_lines_at_all() -> None:
    empty = added(textual([], [], 0), "unique")
    assert values(empty, "unique") == []
    assert values(merged(2, added(textual([], [], 2), "unique")), "unique") == [0, 0]
