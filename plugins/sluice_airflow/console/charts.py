"""The pages of charts, and the data that they draw."""

from __future__ import annotations

from functools import partial
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from sluice.results.chart import Chart, chart, drawable
from sluice.results.layers import Layers
from sluice.results.periods import within
from sluice.results.pinned import Pinned
from sluice.results.query import Query as ResultsQuery
from sluice.results.reader import read
from sluice.tasks.period import Period, parse_period
from sluice.tasks.versions import Task
from sluice_airflow.api.security import Reader
from sluice_airflow.api.stores import ReadPlaces, ResultLayers, Tasks
from sluice_airflow.console.chart_address import address_of
from sluice_airflow.console.chart_in import COARSER, ChartIn, asked
from sluice_airflow.console.chart_out import Fresh, document
from sluice_airflow.console.cost import timed, told
from sluice_airflow.console.page import page
from sluice_airflow.console.route import PageRoute

pages = APIRouter(route_class=PageRoute)
data = APIRouter()

WEEK_MS = 7 * 86_400_000
LENGTHS = (("1h", "hour"), ("6h", "6 hours"), ("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days"))
_HEADERS = {"Cache-Control": "no-store"}
ChartAsked = Annotated[ChartIn, Query()]


class Choice(NamedTuple):
    """What the form of a chart offers for a task."""

    metrics: list[str]
    dimensions: list[str]
    periods: list[str]

    @classmethod
    def of(cls, task: Task) -> Choice:
        own = parse_period(task.spec.period)
        coarser = [each for each in COARSER if parse_period(each) > own and parse_period(each) % own == 0]
        dimensions = [each.name for each in task.spec.dimensions]
        return cls(drawable(task.spec.metrics), dimensions, [task.spec.period, *coarser])


@pages.get("/charts")
def charts(request: Request, user: Reader, tasks: Tasks, given: ChartAsked) -> Response:
    """The page of one task's charts; without a task, the list of them."""
    if not given.task:
        return page(request, "charts.html", user, here="charts", title="Charts", tasks=tasks.list())
    task = tasks.get(given.task)
    return page(
        request,
        "chart.html",
        user,
        here="charts",
        title=task.name,
        task=task,
        tasks=[each.name for each in tasks.list()],
        choice=Choice.of(task),
        given=given,
        metrics=[each for each in given.metric if each] or drawable(task.spec.metrics)[:1],
        lengths=LENGTHS,
        bare=given.bare,
        embed=_with(request, bare="true"),
        whole=_with(request, bare=None),
        address=address_of(given),
    )


@data.get("/charts/data")
async def chart_data(user: Reader, layers: ResultLayers, places: ReadPlaces, given: ChartAsked) -> Response:
    """A chart's data, in columns."""
    place = await places.place()
    try:
        made, seconds = await place.run(timed, partial(draw, layers, given))
    finally:
        place.leave()
    return Response(made, media_type="application/json", headers=_HEADERS | told(seconds))


def draw(layers: Layers, given: ChartIn) -> bytes:
    """A chart's data as JSON. Raises what `chart_in.asked` and the reader raise."""
    wanted = asked(layers, given)
    drawn, commit, settled = _chart(layers, wanted.query, wanted.period_ms)
    # Without both ends, what is shown moves with the newest results.
    settled = settled and bool(given.since and given.until)
    if not given.compare:
        return document(wanted, drawn, Fresh(commit, settled), None)
    shift = WEEK_MS if given.compare == "week" else wanted.until - wanted.since
    earlier, _, also = _chart(layers, wanted.shifted(shift), wanted.period_ms)
    return document(wanted, drawn, Fresh(commit, settled and also), (shift, earlier))


def _chart(layers: Layers, query: ResultsQuery, period_ms: int) -> tuple[Chart, int, bool]:
    """A chart, the newest commit that its open periods have, and whether all of it is published."""
    pinned = Pinned(layers, query)
    (answer,) = read(pinned, query)
    drawn = chart(answer, query, period_ms)
    commit = max(answer.periods.column("commit").drop_null().to_pylist(), default=0)
    return drawn, commit, _published(pinned, within(query.since, query.until))


def _published(pinned: Pinned, starts: range) -> bool:
    """Whether each period that starts in this time is published, and none is to be computed again."""
    sides = pinned.sides(pinned.of, starts.start, starts.stop)
    spec = pinned.of.spec
    own = Period(parse_period(spec.period), spec.timezone)
    reached = starts.start
    for each in sides.final:
        if each.first > reached or each.first in sides.superseded:
            return False
        # A range ends after the start of its last period; the next one begins where that period ends.
        reached = max(reached, own.end(own.start(each.until - 1)))
    return reached >= starts.stop and not sides.open and not sides.recounted


def _with(request: Request, **changes: str | None) -> str:
    """The page's address with some parameters changed, or left out where None."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in changes]
    kept += [(name, value) for name, value in changes.items() if value is not None]
    return f"{request.url.path}?{urlencode(kept)}"
