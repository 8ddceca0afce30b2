"""Each file system is seen once, with its folders and levels; a small one keeps a quarter of itself."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.stack import disks
from sluice.stack.catalogue import DAEMONS
from sluice.stack.disks import GIB, Disk, lacking, look


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for name in ("kafka", "postgres"):
        (tmp_path / "data" / name).mkdir(parents=True)
    (tmp_path / "logs").mkdir()
    return Settings(instance="test", home=tmp_path)


def test_folders_of_one_file_system_are_one_disk(settings: Settings) -> None:
    (disk,) = look(settings)
    assert disk.folders == ("home", "data/kafka", "data/postgres", "logs")
    assert disk.name == "home"
    assert 0 < disk.free < disk.size
    assert look(Settings(instance="test", home=settings.home / "not there")) == []


def test_the_reserve_of_a_small_disk_is_a_quarter(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(gib: int) -> int:
        seen = SimpleNamespace(f_blocks=gib * GIB >> 12, f_bavail=5, f_frsize=4096)
        monkeypatch.setattr(os, "statvfs", lambda _: seen)
        (disk,) = look(settings)
        assert (disk.size, disk.free) == (gib * GIB, 5 * 4096)
        return disk.reserve

    assert [of(100), of(8), of(4), of(1)] == [2 * GIB, 2 * GIB, GIB, GIB // 4]


def test_intake_stops_before_the_layers_and_these_before_daemons() -> None:
    for gib, full in ((4.0, False), (0.6, False), (0.4, True)):
        assert Disk(("home",), 100 * GIB, int(gib * GIB), 2 * GIB).full == full
    own = Disk(("data/datanode",), 100 * GIB, 0, 2 * GIB)
    assert (own.level(Hold.INTAKE), own.level(Hold.LAYERS)) == (2 * GIB, GIB)
    assert str(own) == "data/datanode has 0.00 of 100.0 GiB left"


def test_the_layers_go_on_while_only_kafka_s_disk_is_full() -> None:
    """They read from Kafka; what is counted and archived can be deleted there."""
    kafka = Disk(("data/kafka", "logs"), 100 * GIB, 0, 2 * GIB)
    assert (kafka.level(Hold.INTAKE), kafka.level(Hold.LAYERS)) == (2 * GIB, 0)


def test_a_daemon_lacks_space_on_its_own_disks_and_on_the_instance_s(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Disk(("data/datanode",), GIB, 0, GIB // 4)
    monkeypatch.setattr(disks, "look", lambda _: [Disk(("home",), GIB, GIB, GIB // 4), full])
    settings, named = Settings(instance="test"), DAEMONS
    assert lacking(settings, named["datanode"]) == [full]
    assert lacking(settings, named["kafka"]) == []
    assert lacking(settings, named["hbase"], named["namenode"], named["datanode"]) == [full]
    monkeypatch.setattr(disks, "look", lambda _: [Disk(("home", "data/datanode"), GIB, 0, GIB // 4)])
    assert lacking(settings, named["airflow-api"])
