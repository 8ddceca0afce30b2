"""The page of the lines behind a result, to which a point of a chart leads."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from sluice_airflow.api.lines import task_lines
from sluice_airflow.api.security import UnhurriedReader, Writer
from sluice_airflow.api.stores import Instance
from sluice_airflow.console.page import page
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)

#: Lines on a page.
LINES = 50


@router.get("/lines")
async def lines_page(
    request: Request,
    user: Writer,
    calm: UnhurriedReader,
    instance: Instance,
    *,
    task: Annotated[str, Query(max_length=200)],
    period: Annotated[str, Query(max_length=40)],
    where: Annotated[list[str] | None, Query()] = None,
    version: Annotated[int | None, Query(ge=1)] = None,
    after: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """The lines of one period and the series that pass `where`."""
    found = await task_lines(
        task,
        user=user,
        calm=calm,
        instance=instance,
        period=period,
        where=where,
        version=version,
        metric="count",
        limit=LINES,
        count=False,
        after=after,
    )
    kept = [pair for pair in request.query_params.multi_items() if pair[0] != "after"]
    return page(
        request,
        "lines.html",
        user,
        here="charts",
        title=f"Lines of {task}",
        found=found,
        where=where or [],
        later=f"{request.url.path}?{urlencode([*kept, ('after', found.next)])}" if found.next else "",
        first=f"{request.url.path}?{urlencode(kept)}" if after else "",
    )
