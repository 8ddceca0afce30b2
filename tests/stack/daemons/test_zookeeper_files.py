"""What ZooKeeper does not need goes, and what a full disk left does not keep it from starting."""

from __future__ import annotations

from pathlib import Path

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


def test_a_journal_that_has_not_begun_goes(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "zookeeper" / "zookeeper_0" / "version-2"
    folder.mkdir(parents=True)
    for name, size in (("log.1", 67_108_880), ("log.2", 16), ("log.3", 15), ("log.4", 0), ("snapshot.4", 0)):
        with (folder / name).open("wb") as file:
            file.truncate(size)
    zookeeper_files.drop_unbegun(Settings(instance="test", home=tmp_path))
    assert {path.name for path in folder.iterdir()} == {"log.1", "log.2", "snapshot.4"}


def test_without_a_zookeeper_there_is_nothing_to_purge(tmp_path: Path) -> None:
    assert zookeeper_files.purge(Settings(instance="test", home=tmp_path)) == 0
