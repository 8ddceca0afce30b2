"""A module's tests are found by its name, and a file of tests says what it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.runtime.settings import ROOT
from tests.docs.test_paths import FILES, PACKAGES, TESTS
from tests.marked import whole

#: A module of more lines has tests that name it.
LINES = 120
#: A docstring with fewer says nothing.
WORDS = 4
PRODUCT = ROOT / "include" / "sluice"
IMPORT = re.compile(r"^ *from (sluice[\w.]*) import (\([^)]*\)|.*)|^ *import (sluice[\w.]*)", re.MULTILINE)
DOCSTRING = re.compile(r'\A"""(.+?)"""', re.DOTALL)
LONG = [
    path.relative_to(PRODUCT)
    for path in sorted(PRODUCT.rglob("*.py"))
    if len(path.read_text().splitlines()) > LINES and not path.name.startswith("__")
]


def docstring(text: str) -> str:
    found = DOCSTRING.match(text)
    return found[1] if found else ""


def named(file: Path, text: str) -> Iterator[str]:
    """The product's modules, dotted, that a file of tests imports, is named after, or names in its docstring.

    There it names those that it tests without an import: `kernels.words` in tests/engine is sluice.engine's.
    """
    folder = ".".join(("sluice", *file.parent.parts))
    yield f"{folder}.{file.stem.removeprefix('test_')}"
    yield from (f"{folder}.{name}" for name in re.findall(r"`([\w.]+)`", docstring(text)))
    for module, names, alone in IMPORT.findall(text):
        yield module or alone
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))


def in_tests() -> frozenset[str]:
    files = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    return frozenset(name for file in files for name in named(file, (TESTS / file).read_text()))


def test_a_long_module_has_tests_that_name_it() -> None:
    """If it fails: write tests/ROOM/test_MODULE.py, or name the module in the docstring of its tests."""
    known = in_tests()
    assert [
        str(path) for path in LONG if ".".join(("sluice", *path.with_suffix("").parts)) not in known
    ] == []


def test_a_file_of_tests_has_the_name_of_a_module_or_says_what_it_is_about() -> None:
    unnamed = []
    for file in (path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")):
        package = PACKAGES.get(file.parts[0], PRODUCT).joinpath(*file.parts[1:-1])
        module = package / file.name.removeprefix("test_")
        if not module.is_file() and len(docstring((TESTS / file).read_text()).split()) < WORDS:
            unnamed.append(str(file))
    assert unnamed == []


@pytest.mark.parametrize("package", sorted({file.parts[0] for file in FILES}))
def test_every_package_has_tests_in_make_fast(package: str) -> None:
    files = [file for file in FILES if file.parts[0] == package]
    assert any(not whole(TESTS / file) & {"slow", "stack", "e2e", "containers"} for file in files)
