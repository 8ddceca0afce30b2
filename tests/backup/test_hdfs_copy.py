"""HDFS's files are copied once, whatever is interrupted, and each is checked on its way."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from sluice.backup.folder import BackupFolder
from sluice.backup.hdfs_copy import NOTED, FileCutShort, HdfsCopier, put_back
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsFileNotFound, HdfsStore
from sluice.storage.stores import LocalStore
from tests.backup.stores import CountingReads, silent, write_archive


@pytest.fixture
def folder(tmp_path: Path) -> BackupFolder:
    (tmp_path / "backup").mkdir()
    return BackupFolder(tmp_path / "backup")


def test_what_a_backup_has_is_not_copied_again(tmp_path: Path, folder: BackupFolder) -> None:
    raw = tmp_path / "raw"
    first = write_archive(raw, 0, 10)
    copier = HdfsCopier(LocalStore(), folder)
    assert [each.path for each in copier.copy(str(raw), silent)] == [str(first)]
    second = write_archive(raw, 10, 20)
    again = HdfsCopier(LocalStore(), folder)
    assert [each.path for each in again.copy(str(raw), silent)] == [str(first), str(second)]
    assert (copier.copied, again.copied, again.copied_bytes) == (1, 1, second.stat().st_size)
    third = HdfsCopier(LocalStore(), folder)
    third.copy(str(raw), silent)
    assert third.copied == 0


def test_within_a_backup_an_unchanged_file_is_not_even_read(tmp_path: Path, folder: BackupFolder) -> None:
    write_archive(tmp_path / "raw", 0, 10)
    store = CountingReads()
    copier = HdfsCopier(store, folder)
    copier.copy(str(tmp_path / "raw"), silent)
    before = dict(store.read_bytes)
    copier.copy(str(tmp_path / "raw"), silent)
    assert store.read_bytes == before


def test_another_file_of_the_same_name_and_length_is_copied(tmp_path: Path, folder: BackupFolder) -> None:
    path = write_archive(tmp_path / "raw", 0, 10)
    HdfsCopier(LocalStore(), folder).copy(str(tmp_path / "raw"), silent)
    length = path.stat().st_size
    write_archive(tmp_path / "raw", 0, 10)  # as a repair does: with a claim of its own
    assert path.stat().st_size == length
    again = HdfsCopier(LocalStore(), folder)
    (found,) = again.copy(str(tmp_path / "raw"), silent)
    assert again.copied == 1
    assert folder.pooled(found.sha256).read_bytes() == path.read_bytes()


def test_a_file_that_the_pool_lost_is_copied_again(tmp_path: Path, folder: BackupFolder) -> None:
    write_archive(tmp_path / "raw", 0, 10)
    (found,) = HdfsCopier(LocalStore(), folder).copy(str(tmp_path / "raw"), silent)
    folder.pooled(found.sha256).unlink()
    again = HdfsCopier(LocalStore(), folder)
    again.copy(str(tmp_path / "raw"), silent)
    assert again.copied == 1
    assert folder.pooled(found.sha256).exists()


def test_temporary_files_are_left_out_and_empty_directories_are_not(
    tmp_path: Path, folder: BackupFolder
) -> None:
    tree = tmp_path / "warehouse"
    for name in (".tmp-1-2.parquet", "_temporary/0/part", "day=1/run/part-0", "day=2/run2/.part"):
        LocalStore().write(str(tree / name), b"data")
    found = HdfsCopier(LocalStore(), folder).copy(str(tree), silent)
    assert [(each.path, bool(each.sha256)) for each in found] == [
        (f"{tree}/day=1/run/part-0", True), (f"{tree}/day=2/run2", False),
    ]  # fmt: skip


class LosingStore(LocalStore):
    """The fault: a file is deleted, or cut short, between its listing and its reading."""

    def __init__(self, short: bool) -> None:
        self.short = short

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path.endswith("part-1"):
            if not self.short:
                raise HdfsFileNotFound(path)
            return super().read(path, offset, length)[:-1]
        return super().read(path, offset, length)


def test_a_file_that_is_deleted_meanwhile_is_left_out(tmp_path: Path, folder: BackupFolder) -> None:
    for number in range(3):
        LocalStore().write(str(tmp_path / "w" / f"part-{number}"), b"data")
    found = HdfsCopier(LosingStore(short=False), folder).copy(str(tmp_path / "w"), silent)
    assert [Path(each.path).name for each in found] == ["part-0", "part-2"]
    with pytest.raises(FileCutShort, match="part-1: 3 of 4"):
        HdfsCopier(LosingStore(short=True), folder).copy(str(tmp_path / "w"), silent)


def test_a_damaged_file_of_the_archive_is_copied_and_named(tmp_path: Path, folder: BackupFolder) -> None:
    path = write_archive(tmp_path / "raw", 0, 10)
    path.rename(path.with_name(f"{5:020d}.parquet"))
    (path.parent / f"{7:020d}.parquet").write_bytes(b"PAR1 no more")
    (path.parent / f"{9:020d}.parquet").touch()
    copier = HdfsCopier(LocalStore(), folder)
    found = copier.copy(str(tmp_path / "raw"), silent)
    assert len(found) == copier.copied == 3
    said = " ".join(copier.problems.values())
    assert "another offset" in said
    assert said.count("cannot be read") == 2


class DyingStore(LocalStore):
    """The fault: the process dies after so many reads."""

    def __init__(self, reads: int) -> None:
        self.left = reads

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().read(path, offset, length)


@pytest.mark.slow
def test_an_interrupted_copy_goes_on(tmp_path: Path, folder: BackupFolder) -> None:
    for number in range(NOTED + 5):
        LocalStore().write(str(tmp_path / "w" / f"part-{number:03}"), str(number).encode())
    first = HdfsCopier(DyingStore(2 * NOTED + 5), folder)
    with pytest.raises(KeyboardInterrupt):
        first.copy(str(tmp_path / "w"), silent)
    again = HdfsCopier(LocalStore(), folder)
    found = again.copy(str(tmp_path / "w"), silent)
    assert first.copied + again.copied == len(found) == NOTED + 5
    assert {folder.pooled(each.sha256).read_bytes() for each in found} == {
        str(number).encode() for number in range(NOTED + 5)
    }


def test_what_is_put_back_is_what_was_there(tmp_path: Path, folder: BackupFolder) -> None:
    tree = tmp_path / "w"
    LocalStore().write(str(tree / "a" / "part"), b"data" * 1000)
    (tree / "b").mkdir()
    copier = HdfsCopier(LocalStore(), folder)
    copier.copy(str(tree), silent)
    tree.rename(tmp_path / "gone")
    for each in copier.files():
        put_back(LocalStore(), folder, each)
    assert (tree / "a" / "part").read_bytes() == b"data" * 1000
    assert (tree / "b").is_dir()


@pytest.mark.stack
def test_a_tree_of_the_real_hdfs_comes_back_as_it_was(stack: Settings, folder: BackupFolder) -> None:
    store, root = HdfsStore.of(stack), f"/sluice/tmp/copy-{secrets.token_hex(4)}"
    data = bytes(range(256)) * 40_000  # more than is read at once
    try:
        for name in ("a b/part-0", "a b/part-1", "empty"):
            store.write(f"{root}/{name}", data if name.endswith("0") else b"")
        store.make_directory(f"{root}/none/below")
        copier = HdfsCopier(store, folder)
        found = copier.copy(root, silent)
        assert HdfsCopier(store, folder).copy(root, silent) == found
        store.delete(root, recursive=True)
        for each in found:
            put_back(store, folder, each)
        assert store.read(f"{root}/a b/part-0") == data
        assert [(file.name, file.directory) for file in store.list(root)] == [
            ("a b", True), ("empty", False), ("none", True),
        ]  # fmt: skip
        again = HdfsCopier(store, folder)
        assert again.copy(root, silent) == found
        assert again.copied == 0
    finally:
        store.delete(root, recursive=True)
