"""What a process keeps of what it read is bounded, and a worker of the SQL endpoint keeps less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.results import layers
from sluice.results.answers import Answers
from sluice.results.layers import LayerBounds
from sluice.sql import data_source


@given(st.integers(0, 1 << 40))
def test_shares_of_a_bound_are_within_it(most: int) -> None:
    found = LayerBounds().within(most)
    assert most - len(found) < sum(found) <= most


def test_without_a_bound_it_is_480_mib() -> None:
    assert sum(LayerBounds()) == 480 << 20
    assert LayerBounds().within(480 << 20) == LayerBounds()


def test_a_worker_of_the_sql_endpoint_keeps_64_mib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: dict[str, int] = {}

    def noting(name: str) -> Any:
        def made(*arguments: Any) -> object:
            given[name] = arguments[-1]
            return object()

        return made

    for name in ("FinalBlocks", "OpenPeriods", "StateColumns", "Answers"):
        monkeypatch.setattr(layers, name, noting(name))
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    data_source._layers.cache_clear()
    data_source._layers()
    data_source._layers.cache_clear()
    wanted = LayerBounds().within(64 << 20)
    assert given == {
        "FinalBlocks": wanted.blocks,
        "OpenPeriods": wanted.groups,
        "StateColumns": wanted.values,
        "Answers": wanted.answers,
    }
    assert sum(given.values()) <= 64 << 20


def test_what_is_larger_than_the_bound_is_answered_and_not_kept() -> None:
    batch, drawn = pa.record_batch({"n": pa.array(range(100))}), list[int]()

    def made() -> Any:
        drawn.append(1)
        yield batch

    for most, often in ((batch.nbytes, 1), (batch.nbytes - 1, 2)):
        drawn.clear()
        answers = Answers(most)
        for _ in range(2):
            assert list(answers.of("key", made(), [])) == [batch]
        assert len(drawn) == often
