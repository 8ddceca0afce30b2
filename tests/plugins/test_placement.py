"""The task `place` defers for ever; its trigger looks on a beat and ends when a connection was changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sluice_lab.waiting import until
from tests.loops import run


class Beats:
    """A double of the watch, which counts its beats, and how often it was stopped."""

    def __init__(self) -> None:
        self.count = self.stops = 0

    def beat(self, log) -> None:
        self.count += 1

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Beats:
    from sluice_airflow import placement

    double = Beats()
    monkeypatch.setattr(placement, "_watch", lambda _: double)
    monkeypatch.setattr(placement, "REFRESH_BEATS", 2)
    monkeypatch.setenv("SLUICE_PLACEMENT__BEAT_SECONDS", "1")
    return double


def deferred():
    """The trigger that the task defers to, rebuilt from its serialized form."""
    from airflow.sdk.exceptions import TaskDeferred

    from sluice_airflow.placement import PlacementTrigger, PlaceUnits

    with pytest.raises(TaskDeferred) as deferral:
        PlaceUnits(task_id="place").execute({})
    path, kwargs = deferral.value.trigger.serialize()
    assert path == "sluice_airflow.placement.PlacementTrigger"
    return PlacementTrigger(**kwargs)


@pytest.mark.slow
def test_it_looks_on_a_beat_and_ends_when_a_connection_was_changed(
    home: Path, connected, beats: Beats
) -> None:
    async def watched() -> dict[str, str]:
        task = asyncio.ensure_future(anext(deferred().run()))
        await asyncio.to_thread(until, lambda: beats.count >= 3)
        assert not task.done()
        fields = {"host": "127.0.0.9", "port": 1, "login": "other", "password": "secret", "schema": "sluice"}
        connected("sluice_db", conn_type="postgres", **fields)
        event = await asyncio.wait_for(task, 60)
        return event.payload

    assert run(watched()) == {"status": "a connection was changed"}
    assert beats.stops == 1


def test_moves_end_with_the_task(home: Path, connected, beats: Beats) -> None:
    async def cancelled() -> None:
        task = asyncio.ensure_future(anext(deferred().run()))
        await asyncio.to_thread(until, lambda: beats.count)
        assert not beats.stops
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())
    assert beats.stops == 1
