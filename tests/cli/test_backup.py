"""`sluice backup` and `sluice restore` refuse what they cannot do, with the remedy and an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.cli.errors import FAILED, USAGE
from tests.backup.stores import manifest

pytestmark = pytest.mark.slow


def sluice(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("backup", ["TARGET", "--without-secrets", "--keep", "manifest.json", "Kafka is not in it"]),
        ("restore", ["SOURCE", "--instance", "--secrets", "begins anew", "Kafka is empty"]),
    ],
)
def test_the_help_says_what_it_does(command: str, words: list[str]) -> None:
    shown = " ".join(sluice(command, "--help").stdout.split())
    assert [word for word in words if word not in shown] == []


def test_a_directory_without_a_backup_is_refused(tmp_path: Path) -> None:
    done = sluice("restore", str(tmp_path), "--instance", "trial")
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert "has no complete backup" in done.stderr


def test_a_damaged_backup_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "20260105T020000.000000Z"
    folder.mkdir()
    manifest().write(folder)
    (folder / "manifest.json").write_text("{}")
    done = sluice("restore", str(tmp_path), "--instance", "trial")
    assert (done.returncode, "cannot be read" in done.stderr) == (FAILED, True)


def test_an_instance_that_is_stopped_says_how_to_start_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sluice.cli.main", "backup", str(tmp_path / "backups")]
    environment = {**os.environ, "SLUICE_HOME": str(tmp_path / "stopped"), "SLUICE_INSTANCE": "trial"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "`sluice --instance trial up`" in done.stderr) == (FAILED, True)
    assert not (tmp_path / "backups").exists()


def test_an_unknown_instance_is_refused(tmp_path: Path) -> None:
    done = sluice("restore", str(tmp_path), "--instance", "nowhere")
    assert (done.returncode, "'nowhere' has no port base" in done.stderr) == (USAGE, True)
