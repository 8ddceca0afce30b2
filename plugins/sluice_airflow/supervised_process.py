"""A job that runs for ever as a detached process, supervised from the triggerer.

This takes no worker.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from sluice.archive.scaling import Follows
from sluice.runtime.crew import Crew
from sluice.runtime.settings import Settings, get_settings, newest
from sluice.runtime.supervision import CrashLoop, Superseded, Supervisor
from sluice.stack import jobs
from sluice.stack.job_hosting import job_hosting
from sluice_airflow.connections import aenvironment, environment

POLL_SECONDS = 1.0
REFRESH_POLLS = 60  # how many polls between two looks at the connections
LEFTOVER_POLLS = 10  # how many polls between two looks for jobs that were left on other hosts


class JobTrigger(BaseTrigger):
    """Polls the job once a second, and restarts it itself.

    No scheduler is asked, and no task is started for it. If a connection was changed in Airflow, it restarts
    the job with the new one. It fires only when it cannot help any more: a crash loop, or another owner.
    """

    def __init__(self, job: str, arguments: list[str], owner: str, stuck_after: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job, self.arguments, self.owner, self.stuck_after = job, arguments, owner, stuck_after
        self._environment: dict[str, str] = {}
        # A thread goes on when its trigger is cancelled: what stops the job must come after it.
        self._acts, self._killed = threading.Lock(), False
        self._alerts: dict[str, str] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kwargs = {name: getattr(self, name) for name in ("job", "arguments", "owner", "stuck_after")}
        return f"{type(self).__module__}.{type(self).__name__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        self._environment = await aenvironment()
        watch = self.supervisor()
        self.log.info("watching %s for %s", self.job, self.owner)
        status, sweep = "", None
        for poll in itertools.count():
            try:
                await self._say(watch.poll)
                if poll % LEFTOVER_POLLS == 0 and (sweep is None or sweep.done()):
                    sweep = asyncio.create_task(self._sweep())  # a host that hangs must not hold up the rest
                if poll % REFRESH_POLLS == REFRESH_POLLS - 1 and (why := await self._reconnected()):
                    await self._say(lambda: watch.restart(why))
            except CrashLoop as loop:
                status, message = "crash loop", str(loop)
            except Superseded as superseded:
                status, message = "superseded", str(superseded)
            await self._alert(watch, status)
            if status:
                yield TriggerEvent({"status": status, "message": message})
                return
            await asyncio.sleep(POLL_SECONDS)

    async def on_kill(self) -> None:
        """Stop the job of a task that was marked or cleared, unless the next task has it already."""
        stopped = await asyncio.to_thread(self._stop)
        self.log.info("%s %s", self.job, "stopped" if stopped else "left alone: it has another owner")

    def supervisor(self) -> Supervisor | Crew:
        return supervisor(self.job, self.arguments, self.owner, lambda: self._environment, self.stuck_after)

    def _stop(self) -> bool:
        with self._acts:
            self._killed = True
            return self.supervisor().stop()

    async def _say(self, lines: Callable[[], Iterable[str]]) -> None:
        for line in await asyncio.to_thread(self._act, lines):
            self.log.warning(line)

    def _act(self, lines: Callable[[], Iterable[str]]) -> list[str]:
        with self._acts:
            return [] if self._killed else list(lines())

    async def _sweep(self) -> None:
        """Stop what other hosts still run of any job although it moved away."""
        try:
            await asyncio.to_thread(job_hosting().stop_leftovers, get_settings(), self.log.warning)
        except Exception as error:  # a faulty list of hosts is no reason to stop watching
            self.log.debug("cannot look for jobs that were left elsewhere: %s", error)

    async def _reconnected(self) -> str:
        """Why the job has to be restarted: a connection has another value. Empty if none has."""
        try:
            before, now = self._environment, await aenvironment()
        except Exception as error:  # a database that is away is no reason to stop watching
            self.log.warning("cannot read the connections: %s", error)
            return ""
        if before.keys() != now.keys():  # a connection that cannot be read now is no change
            return ""
        self._environment = now
        changed = sorted(name for name in now if now[name] != before[name])
        return f"changed in Airflow's connections: {', '.join(changed)}" if changed else ""

    async def _alert(self, watch: Supervisor | Crew, status: str) -> None:
        """Update the open alerts; a database that is away is no reason to stop watching."""
        alerts = {f"topic {name}": said for name, said in jobs.failing(get_settings(), self.job).items()}
        alerts |= job_hosting().alerts(get_settings(), self.job)
        if count := watch.restarted_lately:
            alerts["restarted"] = f"{self.job} was restarted {count} times lately"
        if count := watch.successor_died_lately:
            alerts["successor"] = (
                f"{self.job} is to move, and its next process died {count} times lately: see {watch.log}"
            )
        if status == "crash loop":
            alerts[status] = f"{self.job} dies again and again: see {watch.log}"
        if alerts == self._alerts:
            return
        try:
            await asyncio.to_thread(_sync, f"job {self.job}", alerts)
            self._alerts = alerts
        except Exception as error:
            self.log.warning("cannot write alerts: %s", error)


def _sync(source: str, wanted: dict[str, str]) -> None:
    from sluice.storage import postgres
    from sluice.storage.tables import alerts

    alerts.sync(postgres.engine(get_settings()), source, wanted)


def supervisor(
    job: str,
    arguments: list[str],
    owner: str,
    environment: Callable[[], dict[str, str]],
    stuck_after: float,
) -> Supervisor | Crew:
    """What watches ``jobs/<job>.py``; of the archiver and of the speed layer there may be several.

    Airflow and the jobs share one Python, because they import the same package.
    """
    settings = get_settings()

    def make(member: str) -> Supervisor:
        return Supervisor(
            member,
            functools.partial(job_hosting().command, settings, member, arguments),
            owner,
            environment=environment,
            position=functools.partial(jobs.position, settings, member),
            lag=functools.partial(jobs.lag, settings, member),
            stuck_after=stuck_after,
            overlap=job_hosting().overlap(settings, member),
        )

    wanted = _WANTED.get(job)
    return make(job) if wanted is None else Crew(job, make, wanted(settings))


def _drivers(settings: Settings) -> Callable[[float, int], int]:
    """How many drivers the speed layer should have: as many as the setting says now."""
    return lambda now, members: newest(settings).speed.drivers


#: How many members there should be of a job that may have several.
_WANTED: dict[str, Callable[[Settings], Callable[[float, int], int]]] = {
    "archiver": Follows,
    jobs.SPEED_LAYER: _drivers,
}


class SupervisedJob(BaseOperator):
    """Adopt or start ``jobs/<job>.py`` and keep it running for ever.

    stuck_after: how long the job may stay at one position while its lag grows.
    """

    template_fields = ("arguments",)

    def __init__(
        self,
        *,
        job: str,
        arguments: list[str] | None = None,
        stuck_after: timedelta = timedelta(minutes=5),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job, self.arguments, self.stuck_after = job, arguments or [], stuck_after

    def execute(self, context: Any) -> None:
        instance = context["ti"]
        owner = f"{instance.dag_id}/{instance.task_id}/{instance.run_id}/{instance.try_number}"
        seconds = self.stuck_after.total_seconds()
        self.log.info(supervisor(self.job, self.arguments, owner, environment, seconds).claim())
        self.defer(trigger=JobTrigger(self.job, self.arguments, owner, seconds), method_name="lost")

    def lost(self, context: Any, event: dict[str, str]) -> None:
        """The trigger gave up: fail, so that the next try (or the next run) claims the job again."""
        raise AirflowException(f"{event['status']}: {event['message']}")
