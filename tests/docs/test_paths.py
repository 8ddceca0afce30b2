"""A reader finds the tests of a module by its path, as CONTRIBUTING.md promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice.runtime.settings import ROOT

TESTS = ROOT / "tests"
#: Where the package is that a folder of tests is for.
PACKAGES = {path.parent.name: path.parent for path in (ROOT / "include" / "sluice").glob("*/__init__.py")} | {
    "lab": ROOT / "include" / "sluice_lab",
    "hosts": ROOT / "include" / "sluice_hosts",
}
#: Tests of what is no package. dags and plugins test the folders of their names,
#: browser the console's pages, containers the image, cuts stores that lost their power, pins what is pinned.
BESIDE = {"browser", "containers", "cuts", "dags", "docs", "e2e", "pins", "plugins", "security"}
FILES = sorted(path.relative_to(TESTS) for folder in PACKAGES for path in (TESTS / folder).rglob("test_*.py"))


def test_every_package_has_its_folder_of_tests_and_there_is_no_other() -> None:
    folders = {path.parent.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")}
    assert folders - BESIDE == set(PACKAGES)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_of_tests_lies_with_what_it_tests(file: Path) -> None:
    """It is named after a module of its package, or at least uses the package."""
    folder, name = file.parent, file.stem.removeprefix("test_")
    package = PACKAGES[folder.parts[0]].joinpath(*folder.parts[1:])
    assert package.is_dir(), f"tests/{file}: there is no package {package}: move the file"
    if (package / f"{name}.py").is_file() or (package / name).is_dir():
        return
    dotted = ".".join(package.relative_to(ROOT / "include").parts)
    uses = re.search(
        rf"^ *(from|import) ({re.escape(dotted)}|tests\.{re.escape('.'.join(folder.parts))})\b",
        (TESTS / file).read_text(),
        re.MULTILINE,
    )
    assert uses, (
        f"tests/{file} uses nothing of {dotted}, nor has that a module {name}: move or rename the file"
    )
