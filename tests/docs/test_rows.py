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

PACKAGES = [ROOT / "include" / name for name in ("sluice", "sluice_hosts", "sluice_lab")]
#: The demo asks for several hosts if its user does.
DEMO = [
    "sluice.cli.demo.command -> sluice_hosts.commands.demo_hosts",
    "sluice.cli.demo.command -> sluice_hosts.commands.demo_move",
    "sluice.cli.demo.entry -> sluice_hosts.commands.demo_hosts",
]
# What each planted import breaks: where it is planted, and what it imports.
PLANTED = {
    "upward": ("engine/plan.py", "import sluice.speed.ledger", "sluice.speed.ledger"),
    "sideways": ("stack/jars.py", "from sluice.tasks.spec import TaskSpec", "sluice.tasks.spec"),
    "inside a function": (
        "runtime/files.py", "def late() -> None:\n    import sluice.grouping.base", "sluice.grouping.base",
    ),
    "several hosts": ("stack/jobs.py", "import sluice_hosts.placed", "sluice_hosts.placed"),
    "the laboratory": ("traffic/edu.py", "import sluice_lab.streams", "sluice_lab.streams"),
    "PySpark": ("engine/groups.py", "import pyspark", "pyspark"),
    "Airflow": ("stack/log.py", "import airflow", "airflow"),
    "for types alone": (
        "storage/hdfs.py",
        "if TYPE_CHECKING:\n    from sluice.tasks.spec import TaskSpec",
        "sluice.tasks.spec",
    ),
}  # fmt: skip


def rows(package: str = "sluice") -> list[list[str]]:
    """The rooms of each row of a package, top row first, as pyproject.toml tells import-linter."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    ignored = [each["ignore_imports"] for each in contracts if "ignore_imports" in each]
    assert ignored == [["sluice_lab.bench.* -> pyspark"], DEMO]  # rivals run in Spark
    (contract,) = (each for each in contracts if each.get("containers") == [package])
    assert contract["exhaustive"]
    return [row.split(" | ") for row in contract["layers"]]


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo"]
    place = os.environ | {"PYTHONPATH": str(root / "include")}
    return subprocess.run(command, cwd=root, env=place, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("package", "heading"), [("sluice", "package"), ("sluice_hosts", "in `sluice_hosts`")]
)
def test_the_page_has_the_rows_of_the_linter(package: str, heading: str) -> None:
    listed = {room: int(row) for room, row, _ in table_under(text_of("docs/architecture.md"), heading)}
    assert listed == {
        room: row for row, rooms in enumerate(reversed(rows(package)), start=1) for room in rooms
    }
    folder = ROOT / "include" / package
    assert {path.parent.name for path in folder.glob("*/__init__.py")} <= set(listed)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of the package with all planted imports: a run of it takes five seconds."""
    root = tmp_path_factory.mktemp("planted")
    shutil.copy(ROOT / "pyproject.toml", root)
    for package in PACKAGES:
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
