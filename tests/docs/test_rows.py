"""Rows of packages: docs/architecture.md shows pyproject.toml's; `make lint` enforces them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sluice.runtime.settings import ROOT
from tests.docs.test_docs import table_under, text_of

PACKAGES, LABORATORY = ROOT / "include" / "sluice", ROOT / "include" / "sluice_lab"
# What each planted import breaks: where it is planted, and what it imports.
PLANTED = {
    "upward": ("engine/plan.py", "import sluice.speed.ledger", "sluice.speed.ledger"),
    "sideways": ("stack/jars.py", "from sluice.tasks.spec import TaskSpec", "sluice.tasks.spec"),
    "inside a function": (
        "runtime/files.py", "def late() -> None:\n    import sluice.grouping.base", "sluice.grouping.base",
    ),
    "the laboratory": ("traffic/edu.py", "import sluice_lab.streams", "sluice_lab.streams"),
    "PySpark": ("engine/groups.py", "import pyspark", "pyspark"),
    "Airflow": ("stack/log.py", "import airflow", "airflow"),
    "for types alone": (
        "storage/hdfs.py",
        "if TYPE_CHECKING:\n    from sluice.tasks.spec import TaskSpec",
        "sluice.tasks.spec",
    ),
}  # fmt: skip


def rows() -> list[list[str]]:
    """The packages of each row, top row first, as pyproject.toml tells import-linter."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    assert not any("ignore_imports" in contract for contract in contracts)
    (contract,) = (each for each in contracts if each["type"] == "layers")
    assert contract["exhaustive"]
    return [row.split(" | ") for row in contract["layers"]]


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo"]
    place = os.environ | {"PYTHONPATH": str(root / "include")}
    return subprocess.run(command, cwd=root, env=place, capture_output=True, text=True, check=False)


def test_the_page_has_the_rows_of_the_linter() -> None:
    listed = {
        package: int(row) for package, row, _ in table_under(text_of("docs/architecture.md"), "package")
    }
    assert listed == {
        package: row for row, packages in enumerate(reversed(rows()), start=1) for package in packages
    }
    assert set(listed) == {path.parent.name for path in PACKAGES.glob("*/__init__.py")}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of the package with all planted imports: a run of it takes five seconds."""
    root = tmp_path_factory.mktemp("planted")
    shutil.copy(ROOT / "pyproject.toml", root)
    for package in (PACKAGES, LABORATORY):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(package, root / "include" / package.name, ignore=ignored)
    for place, statement, _ in PLANTED.values():
        planted = root / "include" / "sluice" / place
        planted.write_text(f"{planted.read_text()}\n{statement}\n")
    found = lint(root)
    assert found.returncode == 1, found.stdout
    assert "BROKEN" in found.stdout
    return found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLANTED)
def test_a_forbidden_import_is_named_by_the_lint(kind: str, broken: str) -> None:
    place, _, imported = PLANTED[kind]
    module = "sluice." + place.removesuffix(".py").replace("/", ".")
    assert f" {module} -> {imported} " in broken
