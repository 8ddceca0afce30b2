"""Parts of a backup are hashed while they are written, and each changed byte is found."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pyarrow as pa
import pytest

from sluice.backup.manifest import BackupPart, DamagedBackup
from sluice.backup.parts import BackupParts, BackupUnwritable, check_part


def test_a_part_is_known_by_its_hash_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    parts = BackupParts(tmp_path)
    parts.add("below/a", b"abc")
    assert parts.found == [BackupPart("below/a", 3, hashlib.sha256(b"abc").hexdigest())]
    assert (tmp_path / "below" / "a").stat().st_mode & 0o077 == 0
    assert (tmp_path / "below").stat().st_mode & 0o077 == 0


def test_a_part_that_was_cut_short_does_not_count(tmp_path: Path) -> None:
    def die(parts: BackupParts) -> None:
        with parts.writing("a") as out:
            out.write(b"abc")
            raise KeyboardInterrupt

    parts = BackupParts(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        die(parts)
    assert parts.found == []


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    parts = BackupParts(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BackupUnwritable, match=r"a cannot be written \(No space left.*make room"):
        parts.add("a", b"abc")
    assert parts.found == []


@pytest.mark.parametrize("rows", [b"", b"1\t2\n" * 100_000])
def test_a_part_can_be_packed_on_its_way(tmp_path: Path, rows: bytes) -> None:
    parts = BackupParts(tmp_path)
    with parts.writing("a") as out, pa.CompressedOutputStream(out, "zstd") as packed:
        if rows:
            packed.write(rows)
    check_part(tmp_path / "a", parts.found[0].bytes, parts.found[0].sha256)
    with pa.input_stream(str(tmp_path / "a"), compression="zstd") as back:
        assert back.read() == rows


def test_each_change_is_found(tmp_path: Path) -> None:
    parts = BackupParts(tmp_path)
    parts.add("a", b"abc")
    said = parts.found[0].bytes, parts.found[0].sha256
    check_part(tmp_path / "a", *said)
    for changed in (b"abd", b"ab", b"abcd"):
        (tmp_path / "a").write_bytes(changed)
        with pytest.raises(DamagedBackup, match="damaged"):
            check_part(tmp_path / "a", *said)
    (tmp_path / "a").unlink()
    with pytest.raises(DamagedBackup, match="gone"):
        check_part(tmp_path / "a", *said)
