"""A backup counts once its manifest is there, and a manifest that cannot be read says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.backup.manifest import FILE, BackupPart, DamagedBackup, Manifest, NoBackup
from tests.backup.stores import manifest


def test_what_is_written_is_read(tmp_path: Path) -> None:
    made = manifest(parts=(BackupPart("a", 1, "00"),))
    made.write(tmp_path)
    assert Manifest.read(tmp_path) == made
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_a_folder_without_one_is_no_backup(tmp_path: Path) -> None:
    with pytest.raises(NoBackup, match=r"no manifest\.json"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        (json.dumps({"form": 1}), "cannot be read"),
        (json.dumps({"form": 2, "release": "9.0"}), "form 2.*with the release that took it, 9.0"),
    ],
)
def test_one_that_cannot_be_read_says_so(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(DamagedBackup, match=said):
        Manifest.read(tmp_path)
