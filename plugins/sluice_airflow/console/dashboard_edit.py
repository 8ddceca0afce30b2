"""What changes a dashboard: pinning a chart, and the page that orders, names and removes its charts."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, HTTPException, Request, Response, status

from sluice.results.query import BadQuery
from sluice.storage.tables.dashboards import (
    LONGEST_NAME,
    MOST_CHARTS,
    Dashboard,
    DashboardChanged,
    DashboardRefused,
    Dashboards,
    PinnedChart,
)
from sluice_airflow.api import errors
from sluice_airflow.api.security import Reader
from sluice_airflow.api.stores import Tasks
from sluice_airflow.console.chart_address import about, address_of, read_address, title_of
from sluice_airflow.console.chart_in import ChartIn
from sluice_airflow.console.charts import ChartAsked
from sluice_airflow.console.dashboards import Boards, Number, to, version, whole
from sluice_airflow.console.forms import Form, Given
from sluice_airflow.console.page import page
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)

#: In place of a dashboard's number: a new one.
NEW = "new"


class TileRow(NamedTuple):
    """A chart on the page that changes a dashboard."""

    number: int  # its place in the dashboard as it is stored
    title: str
    about: str
    removed: bool = False


@router.get("/dashboards/pin")
def ask_to_pin(request: Request, user: Reader, boards: Boards, tasks: Tasks, given: ChartAsked) -> Response:
    """Ask on which dashboard a chart is to be pinned."""
    tasks.get(given.task)
    own = boards.of(user.get_name())
    room = next((str(each.id) for each in own if len(each.charts) < MOST_CHARTS), NEW)
    form = Form([("title", title_of(given)), ("dashboard", room)])
    return _pinning(request, user, own, given, form)


@router.post("/dashboards/pin")
def pin(request: Request, user: Reader, boards: Boards, tasks: Tasks, given: Given) -> Response:
    """Pin a chart to a dashboard of the user, or to a new one."""
    chart = read_address(given.get("address"))
    tasks.get(chart.task)
    name, where = user.get_name(), given.get("dashboard")
    wanted = PinnedChart(given.get("title"), address_of(chart))
    try:
        if where == NEW:
            made = boards.create(name, given.get("name"), [wanted])
        else:
            made = boards.pin(whole(where, "dashboard"), name, wanted)
    except DashboardRefused as refused:
        return _pinning(request, user, boards.of(name), chart, given, wrong=str(refused))
    return to(request, made.id, f"?did=pinned#chart-{len(made.charts)}")


@router.get("/dashboards/{number}/edit")
def edit(request: Request, user: Reader, boards: Boards, number: Number) -> Response:
    """The page that changes a dashboard."""
    return _editing(request, user, boards.own(number, user.get_name()))


@router.post("/dashboards/{number}/edit")
def save(request: Request, user: Reader, boards: Boards, number: Number, given: Given) -> Response:
    """Change a dashboard as the form says, unless it was changed elsewhere meanwhile.

    A button that moves a chart saves, too: it is there for browsers without the page's script.
    """
    seen = boards.own(number, user.get_name())
    try:
        if seen.version != version(given):
            raise DashboardChanged(seen)
        rows = moved(rows_of(given, seen), given.get("do"))
        return _saved(request, boards, seen, given, rows)
    except DashboardChanged as changed:
        return _editing(request, user, changed.dashboard, wrong=str(changed), code=errors.CHANGED)
    except DashboardRefused as refused:
        written = replace(seen, name=given.get("name"), shared=bool(given.get("shared")))
        return _editing(request, user, written, rows, wrong=str(refused), code=errors.UNPROCESSABLE)


def rows_of(given: Form, seen: Dashboard) -> list[TileRow]:
    """The charts in the order and with the titles that the form says. Raises HTTPException."""
    numbers = [whole(text, "chart") for key, text in given.pairs if key == "chart"]
    titles = [text for key, text in given.pairs if key == "title"]
    removed = {text for key, text in given.pairs if key == "remove"}
    if sorted(numbers) != list(range(len(seen.charts))) or len(titles) != len(numbers):
        raise HTTPException(
            errors.UNPROCESSABLE, "chart: not every chart is named once: send the page's own form"
        )
    shown = [_about(each.address) for each in seen.charts]
    return [
        TileRow(number, title, shown[number], str(number) in removed)
        for number, title in zip(numbers, titles, strict=True)
    ]


def moved(rows: list[TileRow], wish: str) -> list[TileRow]:
    """The rows after a wish such as `earlier 3`: chart 3 changes places with its neighbour."""
    where, _, number = wish.partition(" ")
    step = {"earlier": -1, "later": 1}.get(where, 0)
    place = next((place for place, row in enumerate(rows) if str(row.number) == number), None)
    if not step or place is None or not 0 <= place + step < len(rows):
        return rows
    made = list(rows)
    made[place], made[place + step] = made[place + step], made[place]
    return made


def _saved(
    request: Request, boards: Dashboards, seen: Dashboard, given: Form, rows: list[TileRow]
) -> Response:
    charts = [PinnedChart(row.title, seen.charts[row.number].address) for row in rows if not row.removed]
    boards.change(
        seen.id,
        seen.owner,
        seen.version,
        name=given.get("name"),
        shared=bool(given.get("shared")),
        charts=charts,
    )
    again = given.get("do").partition(" ")[0] in ("earlier", "later")
    return to(request, seen.id, "/edit" if again else "?did=saved")


def _pinning(
    request: Request, user: BaseUser, own: list[Dashboard], chart: ChartIn, given: Form, *, wrong: str = ""
) -> Response:
    return page(
        request,
        "dashboard_pin.html",
        user,
        errors.UNPROCESSABLE if wrong else status.HTTP_200_OK,
        here="dashboards",
        title="Pin a chart",
        own=own,
        most=MOST_CHARTS,
        longest=LONGEST_NAME,
        new=NEW,
        about=about(chart),
        address=address_of(chart),
        chosen=given.get("dashboard"),
        chart_title=given.get("title"),
        name=given.get("name"),
        wrong=wrong,
    )


def _editing(
    request: Request,
    user: BaseUser,
    found: Dashboard,
    rows: list[TileRow] | None = None,
    *,
    wrong: str = "",
    code: int = status.HTTP_200_OK,
) -> Response:
    if rows is None:
        rows = [TileRow(number, each.title, _about(each.address)) for number, each in enumerate(found.charts)]
    return page(
        request,
        "dashboard_edit.html",
        user,
        code,
        here="dashboards",
        title="Edit a dashboard",
        dashboard=found,
        rows=rows,
        longest=LONGEST_NAME,
        wrong=wrong,
    )


def _about(address: str) -> str:
    try:
        return about(read_address(address))
    except BadQuery as error:
        return str(error)
