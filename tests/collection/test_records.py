"""Movers of different collectors share the deployment's lock, and nobody else has it meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluice.collection import records
from sluice.collection.records import DeployBusy
from sluice.runtime.settings import Settings
from sluice_lab.waiting import until


def test_two_collectors_move_side_by_side_and_a_deployment_waits(settings: Settings) -> None:
    with (
        records.moving(settings, "one"),
        records.moving(settings, "other"),
        pytest.raises(DeployBusy),
        records.locked(settings, wait=False),
    ):
        pass
    with records.locked(settings, wait=False):
        pass


def test_one_collector_has_one_mover_which_waits_for_a_deployment(settings: Settings) -> None:
    comes, came, goes = threading.Event(), list[str](), threading.Event()

    def move(name: str) -> None:
        comes.set()
        with records.moving(settings, "one"):
            came.append(name)
            goes.wait()

    with ThreadPoolExecutor(2) as pool:
        with records.locked(settings, wait=True):
            moves = [pool.submit(move, name) for name in ("first", "second")]
            assert comes.wait(60)
            assert came == []
        until(lambda: len(came) == 1, what="one of them moves")
        with pytest.raises(DeployBusy), records.locked(settings, wait=False):
            pass
        assert len(came) == 1
        goes.set()
        for each in moves:
            each.result()
    assert sorted(came) == ["first", "second"]
