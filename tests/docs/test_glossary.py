"""The glossary has each word once, and what it names in the code is there."""

from __future__ import annotations

import ast
import re

import pytest

from sluice.runtime.settings import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text()
WORDS = re.findall(r"^- \*\*(.+?)\*\*", PAGE, re.MULTILINE)
#: The names of packages, modules and classes in brackets.
NAMES = re.findall(r"\(`([\w.]+)`\)", PAGE)


def test_each_word_is_there_once() -> None:
    assert sorted(WORDS) == sorted(set(WORDS))


def test_each_entry_that_ends_with_a_name_is_looked_at() -> None:
    assert len(NAMES) == PAGE.count("(`")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_named_exists(name: str) -> None:
    *module, last = name.split(".")
    root = ROOT / "include" if name.startswith("sluice_") else ROOT / "include" / "sluice"
    folder = root.joinpath(*module)
    if last[0].islower():
        assert (folder / last).is_dir() or (folder / f"{last}.py").is_file()
    else:
        tree = ast.parse(folder.with_suffix(".py").read_text())
        assert last in {each.name for each in tree.body if isinstance(each, ast.ClassDef)}
