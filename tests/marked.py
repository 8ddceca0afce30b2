"""The files that have tests with a mark, found without importing any.

To import all tests takes a process as long as many of them run. So a part of `python -m tests` that needs few
files imports only these. The part that imports all of them checks that none is left out (`tests.conftest`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

#: Marks of the parts that are named by one.
MARKS = ("stack", "e2e")


def having(mark: str, tests: Path) -> list[Path]:
    """The files of tests that name the mark, and the folders in which another file does."""
    naming = [path for path in tests.rglob("*.py") if f"mark.{mark}" in path.read_text()]
    folders = {path.parent for path in naming if not path.name.startswith("test_")}
    return sorted(folders | {path for path in naming if not folders & {*path.parents}})


def left_out(items: Iterable[pytest.Item], tests: Path) -> list[str]:
    """The tests with one of the marks that are in no file which `having` finds."""
    found = []
    for mark in MARKS:
        marked = [item for item in items if item.get_closest_marker(mark)]
        known = {*having(mark, tests)} if marked else set()
        found += [item.nodeid for item in marked if not known & {item.path, *item.path.parents}]
    return found
