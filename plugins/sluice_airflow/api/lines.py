"""The log lines behind a result. They hold personal data, so reading them needs the right to write."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, status
from pydantic import BaseModel, Field, ValidationError

from sluice.lines.answer import LinePosition, LinesAnswer, TookTooLong, find
from sluice.lines.basis import ResultsDropped
from sluice.lines.query import LinesQuery, shown
from sluice.lines.texts import as_text
from sluice.results.layers import StoredLayers, UnknownVersion
from sluice.results.query import BadQuery
from sluice.results.written_query import BadMoment, BadText, WrittenQuery, moment, query
from sluice.runtime.settings import Settings
from sluice.storage.hbase import HBaseUnavailable
from sluice.storage.hdfs import HdfsUnavailable
from sluice.tasks import Problem, TasksRefused
from sluice_airflow.api.security import UnhurriedReader, Writer
from sluice_airflow.api.stores import Instance

router = APIRouter(tags=["lines"])

#: A page has at most MOST_LINES lines, and about PAGE_BYTES of them: a line may have 1 MiB.
MOST_LINES = 1_000
PAGE_BYTES = 8 << 20
#: A search ends after SECONDS; `sluice lines` has no such bound.
SECONDS = 30.0
#: AT_ONCE searches run at a time, and WAITING more wait. They have threads of their own, so no other request
#: of Airflow's server waits for them.
AT_ONCE, WAITING = 2, 8


class LineOut(BaseModel):
    """A line, its identity, and its place in Kafka."""

    event_time: datetime
    host: str
    src_file: str
    src_offset: int = Field(description="The place of the line's first byte in its file.")
    kafka_partition: int
    kafka_offset: int
    line_in_record: int = Field(description="The place of the line in its record, from 0 on.")
    arrival: datetime
    line: str = Field(description="Bytes that are not UTF-8 are written as \\xNN.")


class LinesOut(BaseModel):
    """A page of the lines behind a result."""

    task: str
    version: int
    period: str
    metric: str
    state: str | None = Field(description="final, superseded or open; null: no series passes.")
    commit: int | None = Field(description="The commit that an open period is as of.")
    run_id: str | None = Field(description="The nightly run that a published period is of.")
    counted: int | None = Field(
        description="How many lines the result counts; null: the task keeps no count."
    )
    found: int | None = Field(description="How many lines there are, if all were counted.")
    doubts: list[str] = Field(description="Why `found` is not `counted`.")
    lines: list[LineOut]
    next: str | None = Field(description="Give it as `after` to get the next page; null: this is the last.")


@dataclass(frozen=True)
class LinesWanted:
    """What one request asks for."""

    query: LinesQuery
    limit: int
    count: bool
    commit: int | None
    after: LinePosition | None


class Searches:
    """Runs searches in a few threads of its own; each thread keeps its connections."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, "lines-api")
        self._places = threading.BoundedSemaphore(AT_ONCE + WAITING)
        self._own = threading.local()

    async def page(self, settings: Settings, wanted: LinesWanted) -> LinesOut:
        """One page. Raises HTTPException if too many others ask."""
        if not self._places.acquire(blocking=False):
            raise HTTPException(
                status.HTTP_503_SERVICE_UNAVAILABLE,
                f"{AT_ONCE + WAITING} searches for lines run or wait already: ask again in a moment",
                headers={"Retry-After": "5"},
            )
        future = self._pool.submit(self._page, settings, wanted)
        future.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(future)

    def _page(self, settings: Settings, wanted: LinesWanted) -> LinesOut:
        if not hasattr(self._own, "layers"):
            self._own.layers = StoredLayers(settings)
        answer = find(settings, wanted.query, layers=self._own.layers, commit=wanted.commit, seconds=SECONDS)
        return page_of(answer, wanted)


SEARCHES = Searches()


@router.get("/tasks/{name}/lines")
async def task_lines(
    name: str,
    *,
    user: Writer,
    calm: UnhurriedReader,
    instance: Instance,
    period: Annotated[str, Query(description="The period's start, as results have it.")],
    where: Annotated[list[str] | None, Query(description="DIM=VALUE, DIM^=PREFIX or DIM~=PATTERN.")] = None,
    version: Annotated[int | None, Query(ge=1)] = None,
    metric: Annotated[str, Query(description="Only the lines that this metric is computed of.")] = "count",
    limit: Annotated[int, Query(ge=1, le=MOST_LINES)] = 100,
    count: Annotated[bool, Query(description="Count all lines, and send none.")] = False,
    after: Annotated[str | None, Query(description="`next` of the page before.", max_length=200)] = None,
) -> LinesOut:
    """The lines behind a result, from the archive and from Kafka, in the order in which they arrived."""
    try:
        start = moment(period)
        conditions = query(name, version=version, given=WrittenQuery(where or ())).where
        asked = LinesQuery(task=name, period=start or 0, version=version, where=conditions, metric=metric)
        commit, place = (None, None) if after is None else read_token(after)
        return await SEARCHES.page(instance, LinesWanted(asked, limit, count, commit, place))
    except (BadText, BadMoment, BadQuery) as refused:
        raise TasksRefused([Problem("", str(refused))]) from None
    except ValidationError as refused:
        raise TasksRefused(Problem("", each["msg"]) for each in refused.errors()) from None
    except UnknownVersion as unknown:
        raise HTTPException(status.HTTP_404_NOT_FOUND, str(unknown)) from None
    except ResultsDropped as gone:
        raise HTTPException(status.HTTP_410_GONE, str(gone)) from None
    except (TookTooLong, HdfsUnavailable, HBaseUnavailable) as away:
        raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, str(away)) from None


def page_of(answer: LinesAnswer, wanted: LinesWanted) -> LinesOut:
    """The page that was asked for."""
    lines: list[LineOut] = []
    last, size, whole = wanted.after, 0, True
    if wanted.count:
        answer.count()
    else:
        for batch, places in answer.pages(wanted.limit, wanted.after):
            for row, place in zip(as_text(batch).to_pylist(), places, strict=True):
                whole = not lines or size + len(row["line"]) <= PAGE_BYTES
                if not whole:
                    break
                lines.append(LineOut(**row))
                last, size = place, size + len(row["line"])
            if not whole:
                break
    ended = wanted.count or (answer.complete and whole)
    basis = answer.basis
    result = basis.result
    commit = wanted.commit if wanted.commit is not None and result.commit else result.commit
    return LinesOut(
        task=basis.task.spec.name,
        version=basis.task.version,
        period=shown(basis.start, basis.task),
        metric=wanted.query.metric,
        state=result.state,
        commit=commit or None,
        run_id=result.run_id or None,
        counted=result.counted,
        found=answer.found if answer.complete else None,
        doubts=answer.doubts() if wanted.commit is None else [],
        lines=lines,
        next=None if ended or last is None else token(commit, last),
    )


def token(commit: int, place: LinePosition) -> str:
    """What names the lines behind a place, of a result as of a commit (0: a published one)."""
    return base64.urlsafe_b64encode(json.dumps([commit, *place]).encode()).decode()


def read_token(text: str) -> tuple[int | None, LinePosition]:
    """The commit and the place of a token. Raises BadText."""
    try:
        commit, *place = json.loads(base64.urlsafe_b64decode(text.encode()))
        numbers = [int(each) for each in (commit, *place)]
        return numbers[0] or None, LinePosition(*numbers[1:])
    except (binascii.Error, UnicodeError, ValueError, TypeError):
        raise BadText("after", f"{text!r}: give what `next` of the page before says") from None
