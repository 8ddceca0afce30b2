"""No pin of ours has a known advisory that is not on the reasoned list."""

from __future__ import annotations

import pytest

from tests.pins import accepted, advisories, pinned
from tests.pins.report import Report

pytestmark = pytest.mark.slow


def test_no_advisory_is_open_and_the_list_has_no_more_than_it_needs() -> None:
    made = Report.of(pinned.all_pins(), advisories.load(), accepted.load())
    assert made.faults() == []
