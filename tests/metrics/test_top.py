"""The most frequent values, with their bounds; texts come through `kernels.row_groups`."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.metrics.kernels.heavy import CAPACITY, TEXT_BYTES
from sluice.metrics.packed import Damaged
from sluice.metrics.texts import MAX_BYTES
from sluice.metrics.top import HEAVY
from tests.examples import examples
from tests.metrics.states import Columns, added, errors, merged, results, splits, textual, values


def ranked(counts: Counter[str], k: int) -> list[list[object]]:
    return [
        [text, n] for text, n in sorted(counts.items(), key=lambda item: (-item[1], item[0].encode()))[:k]
    ]


def within(columns: Columns, counts: list[Counter[str]], bound: float | None = 1 / (CAPACITY + 1)) -> None:
    """Counts are too low by at most the error, and unlisted values are not more frequent."""
    for found, error, own in zip(values(columns, "top100"), errors(columns, "top100"), counts, strict=True):
        if not own:
            assert (found, error) == (None, 0)
            continue
        listed = dict(found)
        assert all(0 <= own[text] - n <= error for text, n in found)
        least = min(listed.values()) if len(listed) == 100 else 0
        assert max((n for text, n in own.items() if text not in listed), default=0) <= least + error
        if bound is not None:
            assert error <= sum(own.values()) * bound
        if len(own) <= CAPACITY and sum(len(t.encode()) for t in own) <= TEXT_BYTES:
            assert error == 0
            assert found == ranked(own, 100)


def test_the_most_frequent_come_first_and_the_least_of_equal_ones() -> None:
    columns = added(textual([0, 0, 0, 0, 1, 1, 2], ["b", "a", "c", "c", "x", "-", None], 3), "top2")
    assert results(columns, "top2").texts.to_pylist() == ['[["c",2],["a",1]]', '[["x",1]]', None]
    assert results(columns, "top2").values.tolist()[:2] == [2, 1]
    assert values(columns, "top1") == [[["c", 2]], [["x", 1]], None]


@pytest.mark.parametrize(
    "text", ['"', "\\", "a\nb", "\x00", "</script>", "_", "é\u2028", "😀", "[1,2]", "\t" * 3, "'"]
)
def test_any_text_is_json(text: str) -> None:
    columns = added(textual([0, 0, 0], [text, text, "z"], 1), "top5")
    assert values(merged(1, columns, columns), "top5") == [[[text, 4], ["z", 2]]]


def test_a_long_text_is_cut_and_stays_itself() -> None:
    one, two = "é" * 5_000 + "1", "é" * 5_000 + "2"
    columns = added(textual([0, 0, 0, 0], [one, two, one, "x" * MAX_BYTES], 1), "top3", "unique")
    ((first, n), (second, _), (kept, _)) = values(columns, "top3")[0]
    assert (n, kept) == (2, "x" * MAX_BYTES) or kept.startswith("é")
    assert {len(t.encode()) <= MAX_BYTES for t in (first, second, kept)} == {True}
    assert first != second
    assert first.startswith("é" * 100)
    assert values(columns, "unique") == [3]


@pytest.mark.slow
@pytest.mark.parametrize("skew", [1.05, 1.3, 2.0])
@pytest.mark.parametrize("parts", [1, 4, 50])
def test_many_texts_are_within_the_error(skew: float, parts: int) -> None:
    random = np.random.default_rng(parts)
    texts = [f"/page/{n}" for n in np.minimum(random.zipf(skew, 60_000), 50_000).tolist()]
    groups = random.integers(0, 2, len(texts))
    counts = [
        Counter(t for t, g in zip(texts, groups.tolist(), strict=True) if g == group) for group in (0, 1)
    ]
    states = [
        added(textual(groups[own], [texts[i] for i in own], 2), "top10")
        for own in splits(len(texts), parts, random)
    ]
    for order in (states, states[::-1]):
        within(merged(2, *order), counts)
        left = order[0]
        for state in order[1:]:
            left = merged(2, left, state)
        within(left, counts)
        assert max(len(data) for data in left["heavy"].to_pylist()) <= 16 + 24 * CAPACITY + TEXT_BYTES


def test_all_different_texts_leave_nothing_but_an_error() -> None:
    texts = [f"v{i}" for i in range(5_000)]
    columns = added(textual([0] * len(texts), texts, 1), "top10")
    assert (values(columns, "top10"), errors(columns, "top10")) == ([[]], [1])
    assert results(columns, "top10").values.tolist() == [0]
    within(merged(1, columns, columns), [Counter(texts * 2)])


def test_long_texts_have_less_room() -> None:
    random = np.random.default_rng(1)
    texts = [f"{n:0200d}" for n in np.minimum(random.zipf(1.2, 30_000), 5_000).tolist()]
    states = [
        added(textual([0] * 10_000, texts[i : i + 10_000], 1), "top10") for i in range(0, 30_000, 10_000)
    ]
    state = merged(1, *states)
    assert len(state["heavy"][0].as_py()) <= 16 + 24 * CAPACITY + TEXT_BYTES
    within(state, [Counter(texts)], bound=1 / (TEXT_BYTES // 200))


@examples(50)
@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 1), st.sampled_from(["a", "b", "é", "", "-", "a_b", '"'])), max_size=25
        ),
        min_size=1,
        max_size=5,
    )
)
def test_few_texts_in_any_split(parts: list[list[tuple[int, str]]]) -> None:
    rows = [row for part in parts for row in part]
    states = [added(textual([g for g, _ in part], [t for _, t in part], 2), "top10") for part in parts]
    counts = [Counter(t for g, t in rows if g == group and t not in ("", "-")) for group in (0, 1)]
    for order in (states, states[::-1]):
        within(merged(2, *order), counts)


@examples(15)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 4_000), min_size=1, max_size=6), st.booleans())
def test_many_texts_in_any_split(seed: int, sizes: list[int], tree: bool) -> None:
    random = np.random.default_rng(seed)
    parts = [[str(n) for n in np.minimum(random.zipf(1.2, size), 3_000).tolist()] for size in sizes]
    states = [added(textual([0] * len(part), part, 1), "top10") for part in parts]
    while len(states) > 1:
        states = (
            [merged(1, *states[i : i + 2]) for i in range(0, len(states), 2)]
            if tree
            else [merged(1, *states)]
        )
    within(states[0], [Counter(text for part in parts for text in part)])


def _words(*words: int) -> bytes:
    return np.array(words, np.int64).tobytes()


@pytest.mark.parametrize(
    "data",
    [b"\x00" * 5, _words(1, 0), _words(-1, 0), _words(1, 0, 7, 1, 2), _words(1, 0, 7, 1, -8), _words(513, 0)],
)
def test_a_damaged_state_is_refused(data: bytes) -> None:
    column = {"heavy": pa.array([data, _words(0, 0)])}
    with pytest.raises(Damaged, match="a state of heavy is damaged"):
        HEAVY.merge(column, np.zeros(2, np.int64), 1)
    with pytest.raises(Damaged, match="a state of heavy is damaged"):
        values(column, "top1")
