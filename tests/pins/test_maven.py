"""Versions of Maven compare as Maven has it."""

from __future__ import annotations

import itertools

import pytest

from tests.pins.maven import Version

ASCENDING = (
    "1.0-alpha1", "1.0-beta1", "1.0-milestone1", "1.0-rc1", "1.0-SNAPSHOT", "1.0", "1.0-sp1", "1.0-jre",
    "1.0-1", "1.0.1", "1.0.9", "1.0.10", "1.1-rc2", "1.1", "2.0-rc1", "2.0", "9.4.57.v20241219",
    "9.4.58.v20250814", "12.0.33", "33.8.0-jre",
)  # fmt: skip
SAME = (
    ("1", "1.0"), ("1.0", "1.0.Final"), ("4.1.137", "4.1.137.Final"), ("1.0-GA", "1"),
    ("1.0a1", "1.0-alpha1"),
    ("1.0-cr1", "1.0-rc1"), ("1.0-RELEASE", "1.0.0"), ("1.0.0-x", "1-x"),
)  # fmt: skip


@pytest.mark.parametrize(("less", "more"), list(itertools.combinations(ASCENDING, 2)))
def test_the_order(less: str, more: str) -> None:
    assert Version(less) < Version(more)
    assert Version(more) > Version(less)
    assert Version(less) != Version(more)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_version_in_other_words(one: str, other: str) -> None:
    assert Version(one) == Version(other)
    assert not Version(one) < Version(other)
    assert hash(Version(one)) == hash(Version(other))
