from __future__ import annotations

import pytest

from sluice.runtime.nearest import MOST, nearest, nearest_or_all


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["shop", "logs"], "did you mean logs?"),
        (["logs-2", "logs"], "did you mean logs or logs-2?"),
        (["shop", "ads"], "the topics are ads, shop"),
        ([], "there are no topics"),
        (map(str, range(MOST + 2)), f"the topics are 0, 1, 10, {', '.join(map(str, range(11, 20)))}, "),
    ],
)
def test_a_wrong_name_is_answered_with_those_like_it_or_with_all(names: list[str], said: str) -> None:
    there = list(names)
    answer = nearest_or_all("lgos", there, "topics")
    assert answer.startswith(said)
    assert answer.endswith("and 2 more") is (len(there) > MOST)
    assert nearest("lgos", there) == (said if said.startswith("did") else "")
