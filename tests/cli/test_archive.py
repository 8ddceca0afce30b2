"""`sluice archive` without an archive: help and arguments."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from sluice.archive import compaction, verification
from sluice.cli.archive import app
from sluice.runtime import settings as module
from sluice.storage.stores import LocalStore
from tests.archive.local_archive import LocalArchive


@pytest.mark.parametrize("command", ["verify", "repair", "rebuild-index"])
def test_a_topic_must_be_named(command: str) -> None:
    found = CliRunner().invoke(app, [command])
    assert found.exit_code == 2
    assert "TOPIC" in found.output


def test_all_commands_are_listed() -> None:
    found = CliRunner().invoke(app, ["--help"])
    assert {"verify", "repair", "compact", "rebuild-index"} <= set(found.output.split())


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalArchive:
    """The archive of `logs`, as the command finds it."""
    archive = LocalArchive(tmp_path)
    for _ in range(3):
        archive.add(2)
    monkeypatch.setattr(module, "get_settings", lambda: archive.settings)
    monkeypatch.setattr(compaction, "engine", lambda settings: archive.database)
    monkeypatch.setattr(compaction, "alone", lambda database, topic: nullcontext())
    monkeypatch.setattr(verification, "HdfsStore", SimpleNamespace(of=lambda settings: LocalStore()))
    return archive


def test_compact_says_first_what_it_would_do_and_then_does_it(archive: LocalArchive) -> None:
    found = CliRunner().invoke(app, ["compact", "--dry-run"])
    assert found.exit_code == 0
    assert found.stdout.startswith(
        "logs/3 of id: 3 files, 3 of them (0 MiB) would be merged into 1; 0 replaced"
    )
    assert len(archive.standing()) == 3
    found = CliRunner().invoke(app, ["compact", "logs"])
    assert (found.exit_code, len(archive.standing())) == (0, 1)
    assert found.stdout.startswith("logs/3 of id: 3 files, 3 of them (0 MiB) merged into 1; 0 replaced")
    assert "logs/3: 3 files of offsets 0 to 5 are 0" in found.stderr


def test_compact_names_what_it_cannot_merge_and_fails(archive: LocalArchive) -> None:
    Path(archive.claims().path(2)).write_bytes(b"not a Parquet file")
    archive.age()
    found = CliRunner().invoke(app, ["compact", "logs"])
    assert found.exit_code == 1
    assert "it does not end as a Parquet file does" in found.stderr
