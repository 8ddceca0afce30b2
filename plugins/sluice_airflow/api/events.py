"""Server-sent events: when a task's numbers have changed, so nobody has to ask again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from sluice.tasks.store import TaskStore
from sluice_airflow.api import hub as hubs
from sluice_airflow.api.hub import Hub
from sluice_airflow.api.security import Reader, session_lasts
from sluice_airflow.api.stores import News, Tasks
from sluice_airflow.api.told import EventListener, event, position

router = APIRouter(tags=["results"])

#: After how many milliseconds a browser connects again.
RETRY_MS = 3_000
#: Tasks that one listener names.
MOST_TASKS = 100
MEDIA = "text/event-stream"
_EXAMPLE = """id: logs=812.1f3a9c02
event: commit
data: {"topic": "logs", "commit": 812, "tasks": {"hits_by_status": 1}}

id: logs=812.77b0d1e4
event: publication
data: {"topic": "logs", "day": "2015-05-17", "at": "2015-05-18T01:12:09Z", "tasks": {"hits_by_status": 1}}

id: logs=812.77b0d1e4.3.
event: backfill
data: {"topic": "logs", "days": ["2015-05-16"], "tasks": {"hits_by_status": 1}}

id: logs=812.77b0d1e4.3.8c2f00aa
event: superseded
data: {"topic": "logs", "days": ["2015-05-16"], "tasks": {"hits_by_status": 1}}

: alive

"""
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "`commit`: the newest commit, and the tasks (with their versions) whose numbers "
        "changed since the last such event. `publication`: the day that was published last. `backfill`: "
        "days that were filled backwards for these tasks. `superseded`: all published days that are to be "
        "computed again. `end`: the session is over. The first events say how things stand.",
        "content": {MEDIA: {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    404: {"description": "There is no such task."},
    503: {"description": "Too many listen, or PostgreSQL does not answer; see `Retry-After`."},
}
LastEventId = Annotated[
    str,
    Header(
        description="The id of the last event that was received: only what is newer is told.",
        examples=["logs=812."],
    ),
]


@router.get("/events", response_class=Response, responses=_RESPONSES)
async def events(
    request: Request,
    user: Reader,
    tasks: Tasks,
    news: News,
    *,
    task: Annotated[
        list[str] | None,
        Query(max_length=MOST_TASKS, description="These tasks; default: all.", examples=["hits_by_status"]),
    ] = None,
    last_event_id: LastEventId = "",
) -> Response:
    """When tasks have a newer commit, when a day was published, and when their past changed."""
    if task is not None:
        await run_in_threadpool(_known, tasks, task)
    return _listening(request, news, EventListener(task, position(last_event_id)))


@router.get("/tasks/{name}/events", response_class=Response, responses=_RESPONSES)
async def task_events(
    name: str, request: Request, user: Reader, tasks: Tasks, news: News, *, last_event_id: LastEventId = ""
) -> Response:
    """When the task has a newer commit, when a day was published, and when its past changed."""
    await run_in_threadpool(_known, tasks, [name])
    return _listening(request, news, EventListener([name], position(last_event_id)))


def _known(tasks: TaskStore, names: list[str]) -> None:
    """Raise UnknownTask if one of them is none."""
    for name in names:
        tasks.get(name)


def _listening(request: Request, hub: Hub, listener: EventListener) -> Response:
    async def lasts() -> bool:
        return await session_lasts(request)

    return Listening(hub, listener, lasts)


class Listening(StreamingResponse):
    """The events of one listener, as long as client, session and server last."""

    def __init__(self, hub: Hub, listener: EventListener, lasts: Callable[[], Awaitable[bool]]) -> None:
        self._hub, self._listener, self._lasts = hub, listener, lasts
        self._woken = hub.join()
        # A proxy that gathers an answer would keep the events.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(self._events(), headers=headers, media_type=MEDIA)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.leave(self._woken)

    async def _events(self) -> AsyncIterator[bytes]:
        yield f"retry: {RETRY_MS}\n\n".encode()
        loop = asyncio.get_running_loop()
        looked = loop.time()
        async for look in self._hub.looks(self._woken, hubs.HEARTBEAT_SECONDS):
            for each in () if look is None else self._listener.news(look):
                yield each
            if look is None:
                yield b": alive\n\n"
            if loop.time() - looked >= hubs.HEARTBEAT_SECONDS:
                looked = loop.time()
                if not await self._lasts():
                    yield event("end", {"reason": "the session is over: log in again"})
                    return
