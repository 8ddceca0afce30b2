"""What ZooKeeper does not need goes, and what a full disk left does not keep it from starting."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.stack.daemons import zookeeper_files

#: How a snapshot ends that was written whole: its checksum and a slash.
WHOLE = b"12345678\x00\x00\x00\x01/"


def test_the_newest_snapshots_stay_with_the_journals_that_they_need(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "zookeeper" / "zookeeper_0" / "version-2"
    folder.mkdir(parents=True)
    names = ["snapshot.0", "log.1", "snapshot.100", "log.101", "snapshot.9ff", "log.a00", "snapshot.1a00"]
    for name in (*names, "log.1a01", "snapshot.2b00", "log.2b01", "acceptedEpoch"):
        (folder / name).write_bytes(WHOLE)
    settings = Settings(instance="test", home=tmp_path)
    assert zookeeper_files.purge(settings) == 3
    left = {path.name for path in folder.iterdir()}
    # log.101 goes on until log.a00, so it has what came while snapshot.9ff was written.
    assert left == {
        "snapshot.9ff", "snapshot.1a00", "snapshot.2b00", "log.101", "log.a00", "log.1a01", "log.2b01",
        "acceptedEpoch",
    }  # fmt: skip
    assert zookeeper_files.purge(settings) == 0
    for name in ("snapshot.2c00", "snapshot.2d00"):  # a full disk left them: they replace none
        (folder / name).write_bytes(WHOLE[:-1])
    assert zookeeper_files.purge(settings) == 0


def test_without_a_zookeeper_there_is_nothing_to_purge(tmp_path: Path) -> None:
    assert zookeeper_files.purge(Settings(instance="test", home=tmp_path)) == 0


@pytest.mark.parametrize("left", [b"", b"ZKLG\x00\x00\x00\x02\x00", bytes(65552)])
def test_only_a_journal_without_its_beginning_is_set_aside(
    tmp_path: Path, left: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data" / "zookeeper" / "zookeeper_0" / "version-2"
    folder.mkdir(parents=True)
    settings = Settings(instance="test", home=tmp_path)
    zookeeper_files.set_aside_headless(settings)
    (folder / "log.9").write_bytes(left)
    (folder / "log.a0").write_bytes(b"ZKLG\x00\x00\x00\x02" + bytes(65544))
    zookeeper_files.set_aside_headless(settings)
    (folder / "log.b01").write_bytes(left)
    for _ in range(2):
        zookeeper_files.set_aside_headless(settings)
    assert {path.name for path in folder.iterdir()} == {"log.9", "log.a0", zookeeper_files.ASIDE}
    assert (folder / zookeeper_files.ASIDE / "log.b01").read_bytes() == left
    assert "before anything in it was answered" in capsys.readouterr().out
