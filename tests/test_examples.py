"""How many examples a property is tried on is said by the profile, and by nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import settings

from tests.examples import EVERY, QUICK, examples

TESTS = Path(__file__).parent
#: The tests that say a number or a time limit which no profile changes.
OWN = re.compile(r"\bsettings\([^)]*\b(max_examples|deadline)=")


@pytest.mark.slow
def test_no_test_has_a_number_that_no_profile_changes() -> None:
    own = [str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py") if OWN.search(path.read_text())]
    assert own == ["examples.py"]


def test_no_profile_has_a_deadline() -> None:
    for name in ("every", "quick", "explore"):
        assert settings.get_profile(name).deadline is None


@pytest.mark.parametrize(
    ("profile", "tried"), [("every", 40), ("quick", 40 * QUICK // EVERY), ("explore", 400)]
)
def test_a_number_is_a_share_of_the_profile_s(profile: str, tried: int) -> None:
    now = settings.get_current_profile_name()
    try:
        settings.load_profile(profile)
        assert examples(40).max_examples == tried
        assert examples(1).max_examples >= 1
    finally:
        settings.load_profile(now)
