"""Markdown is wrapped at 110 columns, so that a change is seen line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_docs import PAGES

COLUMNS = 110
# Lines that a line break would change or break.
WHOLE = re.compile(r" *(?:\||#|!\[| {4}|<!--|`[^`]+`[.,:;]?$)")


def too_long(text: str) -> list[str]:
    """The lines of prose that are too long, with their numbers."""
    found, code = [], False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and len(line) > COLUMNS and not WHOLE.match(line):
            found.append(f"{number}: {line}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_is_wrapped(page: Path) -> None:
    assert not too_long(page.read_text()), f"{page}: wrap these lines at {COLUMNS} columns"


def test_code_and_tables_may_be_longer_and_prose_may_not() -> None:
    long = "x" * (COLUMNS + 1)
    assert not too_long(f"```\n{long}\n```\n| {long} |\n# {long}\n{'x' * COLUMNS}")
    assert too_long(f"fine\n{long}") == [f"2: {long}"]
