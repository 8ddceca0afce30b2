"""Units on hosts: measure them on a beat, and move what the placement says, for ever."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from sluice.runtime.settings import Settings
from sluice_airflow import SEVERAL_HOSTS
from sluice_airflow.connections import asettings

REFRESH_BEATS = 12  # how many beats between two looks at the connections


class PlacementTrigger(BaseTrigger):
    """Looks at all hosts and units on a beat, moves units, and fires when a connection was changed.

    When it ends, no move begins any more. One that is at work ends by itself, and one that was broken off is
    repeated by the next trigger, or by `sluice placement apply`.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__name__}", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        settings = await asettings()
        watch = _watch(settings)
        try:
            for beat in itertools.count(1):
                await asyncio.to_thread(watch.beat, self.log.warning)
                if beat % REFRESH_BEATS == 0 and await self._reconnected(settings):
                    break
                await asyncio.sleep(settings.placement.beat_seconds)
        finally:  # also if the task is marked as failed, or the triggerer ends
            watch.stop()
        yield TriggerEvent({"status": "a connection was changed"})

    async def _reconnected(self, before: Settings) -> bool:
        try:
            return await asettings() != before
        except Exception as error:  # a database that is away is no reason to stop watching
            self.log.warning("cannot read the connections: %s", error)
            return False


def _watch(settings: Settings) -> Any:
    from sluice.storage.postgres import engine
    from sluice_hosts.units.catalogue import KINDS
    from sluice_hosts.units.watch import UnitWatch

    return UnitWatch(settings, engine(settings), KINDS)


class PlaceUnits(BaseOperator):
    """Defer to the trigger; the next run begins with the new connections."""

    def execute(self, context: Any) -> None:
        if not SEVERAL_HOSTS:
            raise AirflowFailException(
                "no unit can move: other hosts need the package sluice_hosts: install it"
            )
        self.defer(trigger=PlacementTrigger(), method_name="ended")

    def ended(self, context: Any, event: dict[str, str]) -> None:
        self.log.info(event["status"])
