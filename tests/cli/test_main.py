import inspect
import os
import re
import socket
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import typer

from sluice.cli.main import COMMANDS, keep_examples, load
from sluice.runtime.settings import ROOT


def sluice(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sluice.cli.main", *arguments],
        capture_output=True, text=True, env={**os.environ, **env}, timeout=60, check=False,
    )  # fmt: skip


def test_help_names_every_command() -> None:
    shown = sluice("--help")
    assert shown.returncode == 0
    assert all(f"\n  {name} " in shown.stdout for name in COMMANDS)


@pytest.mark.slow
def test_the_version_is_that_of_the_project_and_the_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sluice("--version").stdout == f"sluice {project['version']}\n"
    released = re.findall(r"(?m)^## \[(\d\S*)\]", (ROOT / "CHANGELOG.md").read_text())
    assert released[0] == project["version"]


def test_help_is_quick_because_it_imports_nothing_slow() -> None:
    look = "import sluice.cli.main, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    slow = {"pyspark", "pyarrow", "numpy", "pandas", "sqlalchemy", "kafka", "pydantic", "airflow"}
    assert slow.isdisjoint(done.stdout.split())


@pytest.mark.slow
def test_an_unknown_command_is_usage_with_a_suggestion() -> None:
    shown = sluice("staus")
    assert shown.returncode == 2
    assert "status" in shown.stderr


@pytest.mark.slow
def test_an_unknown_instance_is_one_line_and_no_stack_trace() -> None:
    shown = sluice("--instance", "nowhere", "results", "hits_by_status")
    assert shown.returncode == 2
    assert shown.stderr.startswith("sluice: instance 'nowhere' has no port base")
    assert "Traceback" not in shown.stderr
    assert "the instances are main, demo, " in shown.stderr
    assert "Traceback" in sluice("--instance", "nowhere", "results", "x", SLUICE_DEBUG="1").stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [("results", "hits"), ("sql", "SELECT 1")])
def test_an_instance_that_does_not_run_is_said_and_how_to_start_it(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    with socket.socket() as nobody:  # bound, but it does not listen
        nobody.bind(("127.0.0.1", 0))
        ports = {f"SLUICE_{name}__PORT": str(nobody.getsockname()[1]) for name in ("POSTGRES", "HIVE")}
        shown = sluice("--instance", "trial", *command, SLUICE_HOME=str(tmp_path), **ports)
    said = "sluice: nothing of instance 'trial' runs: start it with `sluice --instance trial up`\n"
    assert (shown.returncode, shown.stderr) == (1, said)


@pytest.mark.slow
def test_an_invalid_time_is_usage() -> None:
    shown = sluice("results", "hits_by_status", "--from", "yesterday")
    assert shown.returncode == 2
    assert "'yesterday' is no time" in shown.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_is_true(name: str) -> None:
    """Each entry points to something real, whose own help begins with the same line."""
    entry = COMMANDS[name]
    target = getattr(import_module(entry.module), entry.attribute)
    command = load(name)
    if isinstance(target, typer.Typer):
        assert len(command.commands) > 1
    else:
        assert inspect.getdoc(target)
    assert command.name == name
    assert command.help


def test_examples_are_not_wrapped_into_prose() -> None:
    text = keep_examples("Does it.\n\nExamples:\n  sluice a\n  sluice b\n\nThe end.")
    assert text == "Does it.\n\n\b\nExamples:\n  sluice a\n  sluice b\n\nThe end."


@pytest.mark.slow
def test_the_platform_goes_without_the_laboratory() -> None:
    there = "import sys; sys.modules['sluice_lab'] = None; from sluice.cli.main import main; main()"
    command = [sys.executable, "-c", there, "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert " demo " in shown.stdout
    assert " lab " not in shown.stdout
