"""Intake is held below the reserve, the layers below half of it; both go on once there is a quarter more."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.runtime.holds import Hold, reason
from sluice.runtime.settings import Settings
from sluice.stack.disk_guard import DiskGuard
from tests.stack.file_systems import FakeDisks


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> FakeDisks:
    return FakeDisks(monkeypatch)


def held(home: Path) -> set[Hold]:
    return {what for what in Hold if reason(home, what)}


def test_what_is_held_follows_the_free_space_and_does_not_flutter(tmp_path: Path, found: FakeDisks) -> None:
    said: list[str] = []
    guard = DiskGuard(Settings(instance="test", home=tmp_path), said.append)
    both, intake = {Hold.INTAKE, Hold.LAYERS}, {Hold.INTAKE}
    course = [
        (40.0, set()), (2.0, set()), (1.9, intake), (2.4, intake), (1.1, intake), (0.9, both), (1.2, both),
        (1.3, intake), (0.9, both), (2.4, intake), (2.5, set()), (2.1, set()), (0.0, both), (90.0, set()),
    ]  # fmt: skip
    for free, expected in course:
        found.are(home=50, datanode=free)
        guard.look()
        assert held(tmp_path) == expected, free
    assert len(said) == 10  # each change once
    assert said[0].startswith(
        "intake held: the disk of data/datanode has less than 2.00 GiB left, and needs 2.50"
    )
    assert said[-1] == "there is space again: layers no longer held"


def test_a_hold_stays_until_the_last_disk_has_space(tmp_path: Path, found: FakeDisks) -> None:
    guard = DiskGuard(Settings(instance="test", home=tmp_path), lambda _: None)
    for kafka, postgres, expected in ((1, 1, True), (9, 1, True), (9, 9, False)):
        found.are(kafka=kafka, postgres=postgres)
        guard.look()
        assert bool(reason(tmp_path, Hold.INTAKE)) == expected


def test_a_disk_that_was_full_is_told_once_when_it_has_space_also_by_another_process(
    tmp_path: Path, found: FakeDisks
) -> None:
    settings = Settings(instance="test", home=tmp_path)
    guard = DiskGuard(settings, lambda _: None)
    full, whole = {"data/datanode"}, set[str]()
    for again in (False, True):
        for free, expected in ((9.0, whole), (0.9, whole), (0.2, whole), (9.0, full), (9.0, whole)):
            found.are(home=50, datanode=free)
            if again and free == 9.0:
                guard = DiskGuard(settings, lambda _: None)
            guard.look()
            assert guard.emptied() == expected


def test_another_process_goes_on_with_a_hold(tmp_path: Path, found: FakeDisks) -> None:
    settings = Settings(instance="test", home=tmp_path)
    for free in (1.0, 2.3):
        found.are(home=free)
        DiskGuard(settings, lambda _: None).look()
        assert held(tmp_path) == {Hold.INTAKE}
