"""A reader finds the tests of a module by its path, as CONTRIBUTING.md promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice.runtime.settings import ROOT

PACKAGES = ROOT / "include" / "sluice"
TESTS = ROOT / "tests"
#: Tests of what is not a package of `include/sluice`. dags and plugins test the folders of their names,
#: browser the console's pages, containers the image, pins what is pinned; hosts are machines for other tests.
BESIDE = {"bench", "browser", "containers", "dags", "docs", "e2e", "hosts", "pins", "plugins", "security"}
FILES = sorted(
    path.relative_to(TESTS)
    for package in PACKAGES.glob("*/__init__.py")
    for path in (TESTS / package.parent.name).rglob("test_*.py")
)


def test_every_package_has_its_folder_of_tests_and_there_is_no_other() -> None:
    packages = {path.parent.name for path in PACKAGES.glob("*/__init__.py")}
    folders = {path.parent.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")}
    assert folders - BESIDE == packages


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_of_tests_lies_with_what_it_tests(file: Path) -> None:
    """It is named after a module of its package, or at least uses the package."""
    package, name = file.parent, file.stem.removeprefix("test_")
    assert (PACKAGES / package).is_dir(), f"tests/{file}: there is no package {package}: move the file"
    if (PACKAGES / package / f"{name}.py").is_file() or (PACKAGES / package / name).is_dir():
        return
    dotted = re.escape(".".join(package.parts))
    uses = re.search(
        rf"^ *(from|import) (sluice|tests)\.{dotted}\b", (TESTS / file).read_text(), re.MULTILINE
    )
    assert uses, (
        f"tests/{file} uses nothing of {package}, nor has that a module {name}: move or rename the file"
    )
