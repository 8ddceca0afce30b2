from __future__ import annotations

from pathlib import Path

from sluice.runtime.settings import Settings
from sluice.stack.daemons import zookeeper_files


def test_the_newest_snapshots_stay_with_the_journals_that_they_need(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "zookeeper" / "zookeeper_0" / "version-2"
    folder.mkdir(parents=True)
    names = ["snapshot.0", "log.1", "snapshot.100", "log.101", "snapshot.9ff", "log.a00", "snapshot.1a00"]
    for name in (*names, "log.1a01", "snapshot.2b00", "log.2b01", "acceptedEpoch"):
        (folder / name).write_text("")
    settings = Settings(instance="test", home=tmp_path)
    assert zookeeper_files.purge(settings) == 3
    left = {path.name for path in folder.iterdir()}
    # log.101 goes on until log.a00, so it has what came while snapshot.9ff was written.
    assert left == {
        "snapshot.9ff", "snapshot.1a00", "snapshot.2b00", "log.101", "log.a00", "log.1a01", "log.2b01",
        "acceptedEpoch",
    }  # fmt: skip
    assert zookeeper_files.purge(settings) == 0


def test_without_a_zookeeper_there_is_nothing_to_purge(tmp_path: Path) -> None:
    assert zookeeper_files.purge(Settings(instance="test", home=tmp_path)) == 0
