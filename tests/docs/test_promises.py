"""docs/security.md names a test for each promise, and the test is there."""

from __future__ import annotations

import re

from sluice.runtime.settings import ROOT

MARK = "<!-- promises: checked by tests/docs/test_promises.py -->"
TEST = re.compile(r"`(tests/[\w/]+\.py)`")


def promises() -> list[list[str]]:
    """The rows of the table: promise, tests, where it ends."""
    text = (ROOT / "docs" / "security.md").read_text()
    table = text[text.index(MARK) :].split("\n\n", 1)[0].splitlines()[3:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


def test_every_promise_has_a_test_that_is_there() -> None:
    rows = promises()
    assert len(rows) > 10
    for promise, tests, _ in rows:
        named = TEST.findall(tests)
        assert named, f"no test: {promise}"
        for name in named:
            assert "def test_" in (ROOT / name).read_text(), f"{name}: {promise}"
