"""The files that have tests with a mark, found without importing any.

To import all tests takes a process as long as many of them run. So a part of `python -m tests` that needs few
files imports only these, and no run imports a file whose tests are all left out by its `-m`. The part that
imports most files checks that no test is left out by mistake (`tests.conftest`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

#: Marks of the parts that are named by one.
MARKS = ("stack", "e2e")
_TERM = re.compile(r"(not )?(\w+)")
_OF_ALL = re.compile(r"^pytestmark = .*$", re.MULTILINE)


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


def refused(expression: str) -> frozenset[str]:
    """The marks that the expression of `-m` forbids: those after `not`, if it only joins terms with `and`."""
    terms = [_TERM.fullmatch(term.strip()) for term in expression.split(" and ")]
    if not all(terms):
        return frozenset()
    return frozenset(term[2] for term in terms if term and term[1])


@cache
def whole(path: Path) -> frozenset[str]:
    """The marks that all tests of the file have by its `pytestmark`, or all of the folder's files."""
    if path.is_dir():
        files = [*path.rglob("test_*.py")]
        return frozenset.intersection(*map(whole, files)) if files else frozenset()
    line = _OF_ALL.search(path.read_text()) if path.match("test_*.py") else None
    return frozenset(re.findall(r"mark\.(\w+)", line[0])) if line else frozenset()
