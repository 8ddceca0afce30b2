"""A store's own file system is filled to the last byte and emptied again, however the fault ends."""

from __future__ import annotations

import errno
import os

import pytest

from sluice.runtime import holds
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.stack import disks
from sluice.stack.catalogue import DAEMONS
from sluice.stack.disk_guard import DiskGuard
from sluice_lab.chaos import faults, file_systems, full_disk
from sluice_lab.chaos.draws import DrawnFault, FaultKind
from sluice_lab.chaos.file_systems import FOLDERS
from tests.repeated import repeated


@pytest.mark.slow
def test_it_is_nearly_full_then_full_then_empty_also_if_the_run_is_interrupted(mounted: Settings) -> None:
    def kafka() -> disks.Disk:
        return next(disk for disk in disks.look(mounted) if disk.name == FOLDERS["kafka"])

    before, file = kafka().free, mounted.home / FOLDERS["kafka"] / "more"

    def interrupted() -> None:
        with full_disk.filling(mounted, "kafka") as fill:
            fill(full_disk.nearly(mounted, "kafka"))
            assert kafka().reserve // 2 < kafka().free < kafka().reserve
            fill(0)
            assert kafka().full
            assert kafka().free < 4096
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                file.write_bytes(b"x" * (64 << 10))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    file.unlink()
    assert before - kafka().free < 1 << 20
    images = mounted.home / file_systems.IMAGES
    assert sum(path.stat().st_blocks * 512 for path in images.iterdir()) < 100 << 20


def fault() -> DrawnFault:
    return DrawnFault(FaultKind.FULL_DISK, "postgres", 0.1, 0, overlaps=False, chance=1)


@pytest.mark.slow
def test_intake_is_held_before_the_disk_is_full_and_goes_on_after_it(mounted: Settings) -> None:
    """With the platform's own guard, which looks as it does in the watch."""
    guard, seen = DiskGuard(mounted, lambda _: None), list[set[Hold]]()

    def held() -> set[Hold]:
        return {what for what in Hold if holds.reason(mounted.home, what)}

    def full(_: float) -> None:
        guard.look()
        seen.append(held())
        assert disks.lacking(mounted, DAEMONS["postgres"])
        assert not disks.lacking(mounted, DAEMONS["kafka"])

    with repeated(guard.look, 0.05):
        faults.carry_out(mounted, fault(), {}, full)
    guard.look()
    assert seen == [set(Hold)]
    assert held() == set()


@pytest.mark.slow
def test_a_platform_that_takes_lines_all_the_same_has_failed(
    mounted: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "START_SECONDS", 0.2)
    with pytest.raises(faults.IntakeGoesOn, match="less than its reserve"):
        faults.carry_out(mounted, fault(), {})
    assert not any(disk.full for disk in disks.look(mounted))
