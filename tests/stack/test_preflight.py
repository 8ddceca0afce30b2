"""What is missing is named with its remedy, by a file that any Python can run."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sluice.runtime.settings import ROOT
from sluice.stack import preflight


def run(*, path: Path) -> subprocess.CompletedProcess[str]:
    """Run the check with ``path`` as the only place to find programs."""
    return subprocess.run(
        [sys.executable, "-S", preflight.__file__],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


def program(directory: Path, name: str, says: str) -> None:
    path = directory / name
    path.write_text(f'#!/bin/sh\necho "{says}" >&2\n')
    path.chmod(0o755)


@pytest.mark.slow
def test_an_empty_machine_is_told_all_that_it_lacks(tmp_path: Path) -> None:
    done = run(path=tmp_path)
    assert done.returncode == 1
    for what in ("Java 17: there is none", "a Java 17 compiler", "Maven", "openjdk-17-jdk-headless"):
        assert what in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_another_java_is_named_with_its_version(tmp_path: Path) -> None:
    program(tmp_path, "java", 'openjdk version \\"21.0.2\\" 2024-01-16')
    assert "java is version 21" in run(path=tmp_path).stderr


@pytest.mark.slow
def test_a_complete_machine_lacks_nothing(tmp_path: Path) -> None:
    program(tmp_path, "java", 'openjdk version \\"17.0.15\\" 2025-04-15')
    program(tmp_path, "javac", "javac 17.0.15")
    for name in ("mvn", "setpriv"):
        program(tmp_path, name, "")
    done = run(path=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "DISK_BYTES", 1 << 60)
    assert any("GiB are free below" in problem for problem in preflight.missing(tmp_path))


@pytest.mark.parametrize(
    ("version", "says"), [((3, 9, 2), "3.9.2, which is too old"), ((3, 14, 0), "3.14.0, which is too new")]
)
def test_a_python_that_cannot_work_is_named(version: tuple[int, ...], says: str) -> None:
    (problem,) = preflight._python(version)
    assert says in problem
    assert "make PYTHON=" in problem


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 11, 2), (3, 12, 1), (3, 13, 9)])
def test_every_python_from_3_11_to_3_13_will_do(version: tuple[int, ...]) -> None:
    assert preflight._python(version) == []


def test_it_asks_for_the_pythons_that_the_package_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (major, oldest), (_, newest) = preflight.OLDEST, preflight.NEWEST
    assert project["requires-python"] == f">={major}.{oldest},<{major}.{newest + 1}"


def test_the_check_is_written_for_old_pythons() -> None:
    ast.parse(Path(preflight.__file__).read_text(), feature_version=(3, 7))
