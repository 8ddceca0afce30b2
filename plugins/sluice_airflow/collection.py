"""The collection tier: show what the inventory changes, deploy it, watch over the agents."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from sluice.runtime.settings import Settings
from sluice_airflow import SEVERAL_HOSTS, logins
from sluice_airflow.connections import asettings, settings

if TYPE_CHECKING:
    from sluice.quality.loss_watch import LossWatch

POLL_SECONDS = 2.0
HEALTH_POLLS = 3  # how many polls between two looks at the agents' metrics
LOSS_SECONDS = 5.0  # between two looks for what Kafka lost
RETRY_SECONDS = 300.0  # how long after a deployment that failed it is looked whether something was left out


class PlanCollection(BaseOperator):
    """Render the configuration of every agent and log how it differs from what is deployed.

    A faulty inventory fails here, for good, before anything was touched.
    """

    def execute(self, context: Any) -> list[str]:
        from sluice.collection import deploy_plan
        from sluice.collection.inventory import InventoryError

        try:
            changes = deploy_plan.plan(settings())
        except InventoryError as error:  # it stays faulty, so it is not tried again
            raise AirflowFailException(str(error)) from error
        self.log.info("The inventory against what is deployed:\n%s", deploy_plan.describe(changes))
        return [f"{change.agent}: {change.action}" for change in changes]


class DeployCollection(BaseOperator):
    """Deploy only what changed; an edge is drained before it stops.

    Returns the fingerprint of the deployed inventory.
    """

    def execute(self, context: Any) -> str:
        from sluice.collection import deploy

        now = settings()
        deployed = fingerprint(now)
        deploy.apply(now, log=self.log.info)
        return deployed


class AgentsTrigger(BaseTrigger):
    """Restarts dead agents, alerts on ailing ones, and fires when the inventory changed.

    Beside that it takes up what the connections of hosts say, and has the front-ends send again what Kafka
    lost.

    It fires at once if an agent of a deployed inventory is not there: Airflow knows of a deployment that was
    made elsewhere, because the instance was restored from a backup.

    retry: the deployment failed; it also fires after some minutes then if something is still to be deployed,
    because a host did not answer, say.

    One trigger watches all agents. It has no ``on_kill``: a front-end's lines are collected whether or not
    somebody watches. ``sluice down`` stops the agents, and the deployment of an inventory stops an agent that
    was taken out of it.
    """

    def __init__(self, inventory: str, retry: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inventory = inventory
        self.retry = retry

    def serialize(self) -> tuple[str, dict[str, Any]]:
        known = {"inventory": self.inventory, "retry": self.retry}
        return f"{type(self).__module__}.{type(self).__name__}", known

    async def run(self) -> AsyncIterator[TriggerEvent]:
        watch = AgentWatch(await asettings())
        beside = [
            asyncio.create_task(self._connections(watch.settings)),
            asyncio.create_task(self._losses(watch.settings)),
        ]
        try:
            async for event in self._watch(watch):
                yield event
        finally:
            for task in beside:
                task.cancel()

    async def _connections(self, settings: Settings) -> None:
        """Take up for ever what the connections of hosts say, if there may be other hosts."""
        if SEVERAL_HOSTS:
            await logins.watch(settings, self.log.warning)

    async def _losses(self, settings: Settings) -> None:
        """Have the front-ends send again for ever what Kafka lost; the agents are looked after meanwhile."""
        losses, fault = await asyncio.to_thread(loss_watch, settings), ""
        while True:
            try:
                lines, fault = await asyncio.to_thread(losses.look), ""
            except Exception as error:  # what is away comes back
                before = fault
                fault = f"cannot look for what Kafka lost: {type(error).__name__}: {error}"
                lines = [fault] if fault != before else []
            for line in lines:
                self.log.warning(line)
            await asyncio.sleep(LOSS_SECONDS)

    async def _watch(self, watch: AgentWatch) -> AsyncIterator[TriggerEvent]:
        fault, retry_at = "", time.monotonic() + RETRY_SECONDS
        for poll in itertools.count():
            try:
                if await asyncio.to_thread(fingerprint, watch.settings) != self.inventory:
                    yield TriggerEvent({"status": "the inventory was changed"})
                    return
                if not self.retry and not poll and await asyncio.to_thread(undeployed, watch.settings):
                    yield TriggerEvent({"status": "an agent of the inventory is not deployed"})
                    return
                if self.retry and time.monotonic() > retry_at:
                    retry_at = time.monotonic() + RETRY_SECONDS
                    if await asyncio.to_thread(left_out, watch.settings):
                        yield TriggerEvent({"status": "something is still to be deployed"})
                        return
                lines = await asyncio.to_thread(watch.poll, poll % HEALTH_POLLS == 0)
                fault = ""
            except Exception as error:  # a daemon that is away must not end the watch over the agents
                before, fault = fault, f"cannot look after the agents: {type(error).__name__}: {error}"
                lines = [fault] if fault != before else []
            for line in lines:
                self.log.warning(line)
            await asyncio.sleep(POLL_SECONDS)


def loss_watch(settings: Settings) -> LossWatch:
    """In a thread: what it imports takes its time."""
    from sluice.quality.loss_watch import LossWatch

    return LossWatch(settings)


class AgentWatch:
    """What the trigger remembers of the agents from one poll to the next."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._healths: dict[str, Any] = {}

    def poll(self, look: bool) -> list[str]:
        """Restart dead agents; with ``look`` also read all metrics. Returns lines for the log."""
        from sluice.collection import deploy

        lines: list[str] = []
        failed: dict[str, str] = {}
        deploy.ensure(self.settings, log=lines.append, failed=failed)
        return lines + (self._look(failed) if look else [])

    def _look(self, failed: dict[str, str]) -> list[str]:
        from sluice.collection import deploy, health
        from sluice.storage import postgres

        agents = deploy.agents(self.settings)
        self._healths = health.check_all(self.settings, agents, self._healths, failed)
        # A silent host takes its time, and its agents may have been given up meanwhile.
        there = {agent.name for agent in deploy.agents(self.settings)}
        known = [each for each in self._healths.values() if each.agent in there]
        return health.report(postgres.engine(self.settings), known)


class SuperviseCollection(BaseOperator):
    """Defer to the trigger until the inventory changes; the next run then deploys it.

    deployed_by: the task that deployed. If it failed (because of a faulty inventory, say), the agents are
    watched as they are until the inventory is written again.
    """

    def __init__(self, *, deployed_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.deployed_by = deployed_by

    def execute(self, context: Any) -> None:
        deployed = context["ti"].xcom_pull(task_ids=self.deployed_by)
        now = deployed or fingerprint(settings())
        self.defer(trigger=AgentsTrigger(now, retry=not deployed), method_name="changed")

    def changed(self, context: Any, event: dict[str, str]) -> None:
        self.log.info(event["status"])


def fingerprint(settings: Settings) -> str:
    """The fingerprint of the inventory file, of hosts and placements, and of what enrolment knows.

    A trigger keeps old code in memory, so it compares files, not renderings.
    """
    from sluice.collection import inventory
    from sluice.collection.hosting import hosting

    paths = [inventory.path_of(settings), *hosting().files(settings)]
    return hashlib.sha256(b"\0".join(p.read_bytes() if p.exists() else b"" for p in paths)).hexdigest()


def left_out(settings: Settings) -> bool:
    """Whether the deployment left something out."""
    return bool(_actions(settings) - {"unchanged"})


def undeployed(settings: Settings) -> bool:
    """Whether an agent of the inventory has no configuration at all."""
    return "create" in _actions(settings)


def _actions(settings: Settings) -> set[str]:
    """What a deployment would do; nothing with a faulty inventory, which waits until it is written again."""
    from sluice.collection import deploy_plan
    from sluice.collection.inventory import InventoryError

    try:
        return {change.action for change in deploy_plan.plan(settings)}
    except InventoryError:
        return set()
