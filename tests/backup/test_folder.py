"""A directory with backups: what counts, what is refused, and what is deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice.backup.folder import LISTED, BackupFolder, BackupRuns, BadTarget, PooledFile, chosen
from sluice.backup.manifest import NoBackup
from tests.backup.stores import manifest

NOW = datetime(2026, 1, 5, 2, tzinfo=UTC)


def pooled(folder: BackupFolder, path: str, data: bytes) -> PooledFile:
    incoming = folder.incoming()
    incoming.write(data)
    file = PooledFile(path, len(data), "tail", folder.join(incoming))
    folder.note([file])
    return file


def backed_up(folder: BackupFolder, hours: int, *files: PooledFile) -> Path:
    parts = folder.begin(NOW + timedelta(hours=hours))
    text = "".join(
        f'{{"path": "{f.path}", "bytes": {f.bytes}, "tail": "tail", "sha256": "{f.sha256}"}}\n' for f in files
    )
    parts.add(LISTED, text.encode())
    manifest(parts=tuple(parts.found)).write(parts.folder)
    return parts.folder


def test_the_newest_complete_backup_is_chosen(tmp_path: Path) -> None:
    folder = BackupFolder(tmp_path)
    first, second = backed_up(folder, 0), backed_up(folder, 1)
    cut_short = folder.begin(NOW + timedelta(hours=2)).folder
    assert folder.complete() == [first, second]
    assert chosen(tmp_path)[1] == second
    assert chosen(first)[1] == first
    assert chosen(first)[0].root == tmp_path
    folder.begin(NOW + timedelta(hours=3))
    assert not cut_short.exists()
    assert folder.complete() == [first, second]


@pytest.mark.parametrize("name", ["", "missing"])
def test_a_directory_without_a_backup_says_so(tmp_path: Path, name: str) -> None:
    with pytest.raises(NoBackup):
        chosen(tmp_path / name)


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(BadTarget, match="photos"), BackupFolder(tmp_path).held():
        pass
    (tmp_path / "file").touch()
    with pytest.raises(BadTarget, match="no directory"), BackupFolder(tmp_path / "file").held():
        pass


def test_one_process_at_a_time_uses_it(tmp_path: Path) -> None:
    folder = BackupFolder(tmp_path / "new")
    with folder.held(), pytest.raises(BackupRuns), BackupFolder(tmp_path / "new").held():
        pass
    with folder.held():
        backed_up(folder, 0)
    with folder.held():
        assert len(folder.complete()) == 1
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


def test_a_catalogue_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    folder = BackupFolder(tmp_path)
    one = pooled(folder, "/a", b"1")
    with (tmp_path / "copied.jsonl").open("a") as out:
        out.write('{"path": "/b", "by')
    two = pooled(folder, "/c", b"2")
    assert folder.catalogue() == {"/a": one, "/c": two}


def test_only_what_the_newest_backups_have_is_kept(tmp_path: Path) -> None:
    folder = BackupFolder(tmp_path)
    old, both, new = (pooled(folder, f"/{n}", str(n).encode() * 10) for n in range(3))
    first = backed_up(folder, 0, old, both)
    second = backed_up(folder, 1, both, new)
    assert folder.keep(2) == (0, 0)
    assert folder.keep(1) == (1, 10)
    assert not first.exists()
    assert folder.complete() == [second]
    assert folder.catalogue() == {"/1": both, "/2": new}
    assert [folder.pooled(each.sha256).exists() for each in (old, both, new)] == [False, True, True]
