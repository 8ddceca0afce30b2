"""Results: what tasks counted, as JSON, CSV or an Arrow stream."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
from fastapi import APIRouter, Query, Request, Response, status
from starlette.datastructures import URL

from sluice.results import formats
from sluice.results.layers import Layers
from sluice.results.pinned import Pinned
from sluice.results.query import Query as Asked
from sluice.results.reader import ResultsAnswer, read
from sluice.results.spans import spans
from sluice_airflow.api.accepted import MEDIA, Style, style_of
from sluice_airflow.api.models import ResultsOut
from sluice_airflow.api.reads import Streamed
from sluice_airflow.api.results_in import ResultsIn
from sluice_airflow.api.security import Reader
from sluice_airflow.api.stores import ReadPlaces, ResultLayers

router = APIRouter(tags=["results"])

#: An answer up to this size is read before its first byte is sent, so it can have a tag and a next page.
HELD_BYTES = 8 << 20
#: Rows that are written at a time.
PIECE_ROWS = 16_384
_CACHED = {"Cache-Control": "private, no-cache", "Vary": "Accept, Accept-Encoding, Authorization, Cookie"}

_EXAMPLE = {
    "task": {"name": "hits_by_status", "id": 3, "version": 1, "period": "1m", "timezone": "UTC"},
    "columns": [
        {"name": "period", "kind": "period"},
        {"name": "status", "kind": "dimension"},
        {"name": "count", "kind": "metric"},
        {"name": "state", "kind": "state"},
    ],
    "rows": [
        {"period": "2015-05-17T10:05:00Z", "status": "200", "count": 58, "state": "final"},
        {"period": "2015-05-17T10:05:00Z", "status": "404", "count": 2, "state": "final"},
    ],
    "periods": [
        {
            "first": "2015-05-17T10:05:00Z",
            "last": "2015-05-17T10:05:00Z",
            "periods": 1,
            "state": "final",
            "run_id": "scheduled__2015-05-17T00:00:00+00:00",
        }
    ],
    "next": "/sluice/api/v1/tasks/hits_by_status/results?since=2015-05-17&limit=2&offset=2",
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ResultsOut,
        "description": "The rows, in the order of periods and dimensions unless sorted.",
        "headers": {
            "ETag": {"schema": {"type": "string"}, "description": "Names this answer; see `If-None-Match`."},
            "Link": {"schema": {"type": "string"}, "description": "The next page, with rel=next."},
        },
        "content": {
            MEDIA["json"]: {"example": _EXAMPLE},
            MEDIA["csv"]: {
                "schema": {"type": "string"},
                "example": "period,status,count,state\n2015-05-17T10:05:00Z,200,58,final\n",
            },
            MEDIA["arrow"]: {"schema": {"type": "string", "format": "binary"}},
        },
    },
    304: {"description": "The answer is still the one with the tag in `If-None-Match`."},
    404: {"description": "There is no such task or version."},
    406: {"description": "The header Accept has none of the formats."},
    503: {"description": "Too many ask at once, or a store does not answer; see `Retry-After`."},
}


@router.get("/tasks/{name}/results", response_class=Response, responses=_RESPONSES)
async def task_results(
    name: str,
    request: Request,
    user: Reader,
    *,
    asked: Annotated[ResultsIn, Query()],
    layers: ResultLayers,
    places: ReadPlaces,
) -> Response:
    """What a task counted, a row for each period and series, from both layers."""
    wanted = ResultsWanted(
        asked.query(name, request.query_params),
        style_of(request.headers.get("accept"), asked.format),
        following(request.url, asked),
        request.headers.get("if-none-match", ""),
        "gzip" in request.headers.get("accept-encoding", ""),
    )
    place = await places.place()
    try:
        answered = await place.run(begin, layers, wanted)
    except BaseException:
        place.leave()
        raise
    if isinstance(answered, BegunAnswer):
        return Streamed(answered.held, answered.rest, place, answered.headers)
    place.leave()
    return answered


def following(url: URL, asked: ResultsIn) -> str:
    """The address of the next page, without the server's name, which a proxy may have changed."""
    paged = url.include_query_params(offset=asked.offset + asked.limit)
    return f"{paged.path}?{paged.query}"


class ResultsWanted(NamedTuple):
    """A request for results; `next` is the address of the page after it."""

    query: Asked
    style: Style
    next: str
    known: str  # If-None-Match
    packed: bool  # the server may compress the answer, which then has another tag


class BegunAnswer(NamedTuple):
    """An answer that is too large to be held."""

    held: list[bytes]
    rest: Generator[bytes]
    headers: Mapping[str, str]


def begin(layers: Layers, wanted: ResultsWanted) -> Response | BegunAnswer:
    """A whole answer, or the first pieces of one. Raises what `results.reader` raises."""
    pinned = Pinned(layers, wanted.query)
    tag = f'"{pinned.tag(wanted.style, "gzip" if wanted.packed else "")}"'
    if _is_known(tag, wanted.known):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers={"ETag": tag, **_CACHED})
    (answer,) = read(pinned, wanted.query)
    page = Page(answer)
    pieces, held, size = _WRITERS[wanted.style](page, wanted.next), list[bytes](), 0
    headers = {"Content-Type": MEDIA[wanted.style], **_CACHED}
    if wanted.style == "csv":
        headers["Content-Type"] += "; charset=utf-8; header=present"
    if wanted.style != "json":
        headers["Content-Disposition"] = f'attachment; filename="{answer.task.spec.name}.{wanted.style}"'
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size > HELD_BYTES:
            return BegunAnswer(held, pieces, {**headers, **({"ETag": tag} if pinned.is_final else {})})
    if pinned.holds():
        headers["ETag"] = tag
    if answer.more:
        headers["Link"] = f'<{wanted.next}>; rel="next"'
    return Response(b"".join(held), headers=headers)


def _is_known(tag: str, known: str) -> bool:
    tags = [each.strip().removeprefix("W/") for each in known.split(",")]
    return tag in tags or "*" in tags


class Page:
    """The rows of an answer in pieces, with what is said of them."""

    def __init__(self, answer: ResultsAnswer) -> None:
        self.answer = answer

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.answer.batches():
            for begins in range(0, batch.num_rows, PIECE_ROWS):
                yield batch.slice(begins, PIECE_ROWS)

    def head(self) -> dict[str, Any]:
        """What is said of the answer before its rows."""
        task, answer = self.answer.task, self.answer
        kinds = dict.fromkeys(answer.dimensions, "dimension") | dict.fromkeys(answer.metrics, "metric")
        kinds |= {"period": "period", "state": "state"}
        names = {"name": task.spec.name, "id": task.task_id, "version": task.version}
        return {
            "task": {**names, "period": task.spec.period, "timezone": task.spec.timezone},
            "columns": [{"name": each, "kind": kinds.get(each, "error")} for each in answer.schema.names],
        }

    def end(self, following: str) -> dict[str, Any]:
        """What is said of it after its rows."""
        zone = pa.timestamp("ms", tz=self.answer.task.spec.timezone)
        found = spans(self.answer.periods)
        for name in ("first", "last"):
            texts = formats.times(pa.array([each[name] for each in found], pa.int64()).cast(zone))
            for each, text in zip(found, texts, strict=True):
                each[name] = text
        return {"periods": found, "next": following if self.answer.more else None}


def _json(page: Page, following: str) -> Generator[bytes]:
    yield f'{json.dumps(page.head(), ensure_ascii=False)[:-1]}, "rows": '.encode()
    yield from formats.json_rows(page.answer.schema, page)
    yield f", {json.dumps(page.end(following), ensure_ascii=False)[1:]}\n".encode()


def _csv(page: Page, following: str) -> Generator[bytes]:
    yield from formats.csv(page.answer.schema, page)


def _arrow(page: Page, following: str) -> Generator[bytes]:
    yield from formats.arrow(page.answer.schema, page, lambda: page.head() | page.end(following))


_WRITERS = {"json": _json, "csv": _csv, "arrow": _arrow}
