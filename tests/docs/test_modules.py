"""Modules that pages and docstrings name with their dots exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.runtime.settings import ROOT

INCLUDE = ROOT / "include"
NAME = re.compile(r"`(sluice(?:_hosts|_lab)?(?:\.\w+)+)")
FILES = sorted(
    path.relative_to(ROOT)
    for folder in ("docs", "include", "plugins")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".md", ".py", ".j2") and NAME.search(path.read_text())
)


def unknown(text: str) -> Iterator[str]:
    """The names that lead below a package's room, and to no module there."""
    for name in NAME.findall(text):
        package, room, *rest = name.split(".")
        at = INCLUDE / package / room
        while rest and at.is_dir():
            at = at / rest.pop(0)
        known = at.is_dir() or at.with_suffix(".py").is_file() or at.name in _defined(at.parent)
        if (INCLUDE / package / room).is_dir() and not known:
            yield name


def _defined(package: Path) -> set[str]:
    """What a package's own module names."""
    own = package / "__init__.py"
    return set(re.findall(r"\w+", own.read_text())) if own.is_file() else set()


@pytest.mark.parametrize("file", FILES, ids=str)
def test_modules_that_are_named_exist(file: Path) -> None:
    assert list(unknown((ROOT / file).read_text())) == []


def test_a_module_that_is_not_there_is_found() -> None:
    text = "`sluice.storage.hbase.HBase`, `sluice.storage.nothing.Here` and `sluice.crt`"
    assert list(unknown(text)) == ["sluice.storage.nothing.Here"]
