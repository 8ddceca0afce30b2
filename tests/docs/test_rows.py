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

PACKAGES = ROOT / "include" / "sluice"
# What each planted import breaks, and where it is planted.
PLANTED = {
    "upward": ("engine/plan.py", "import sluice.speed.ledger"),
    "sideways": ("stack/jars.py", "from sluice.tasks.spec import TaskSpec"),
    "inside a function": ("runtime/files.py", "def late() -> None:\n    import sluice.grouping.base"),
    "PySpark": ("engine/groups.py", "import pyspark"),
    "Airflow": ("stack/jars.py", "import airflow"),
    "for types alone": ("storage/hdfs.py", "if TYPE_CHECKING:\n    from sluice.tasks.spec import TaskSpec"),
}


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


@pytest.mark.parametrize("kind", PLANTED)
def test_a_forbidden_import_fails_the_lint(kind: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(PACKAGES, tmp_path / "include" / "sluice", ignore=shutil.ignore_patterns("__pycache__"))
    place, statement = PLANTED[kind]
    planted = tmp_path / "include" / "sluice" / place
    planted.write_text(f"{planted.read_text()}\n{statement}\n")
    found = lint(tmp_path)
    assert found.returncode == 1, found.stdout
    assert "BROKEN" in found.stdout
    module = "sluice." + place.removesuffix(".py").replace("/", ".")
    assert f" {module} -> " in found.stdout
