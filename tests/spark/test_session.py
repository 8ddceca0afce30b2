from __future__ import annotations

import pytest

from sluice.spark.session import repeating, slots


@pytest.mark.parametrize(
    ("master", "found"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://127.0.0.1:7077", "spark://127.0.0.1:7077"),
    ],
)
def test_a_task_that_fails_is_repeated_on_this_machine_too(master: str, found: str) -> None:
    assert repeating(master) == found


@pytest.mark.parametrize(
    ("master", "found"),
    [
        ("local", 1),
        ("local[2]", 2),
        ("local[16,4]", 16),
        ("local[*]", None),
        ("local-cluster[2,1,1024]", None),
        ("spark://127.0.0.1:7077", None),
    ],
)
def test_tasks_at_once_are_known_where_the_master_says_them(master: str, found: int | None) -> None:
    assert slots(master) == found
