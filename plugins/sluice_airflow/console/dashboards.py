"""The pages of dashboards: the list, one with its charts, and the question before one is deleted.

Whoever may read keeps dashboards: they hold nothing but addresses of charts, which everybody may open who
may read.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response, status

from sluice.results.query import BadQuery
from sluice.storage.tables.dashboards import (
    LONGEST_NAME,
    MOST,
    MOST_LISTED,
    Dashboard,
    DashboardChanged,
    DashboardRefused,
    Dashboards,
)
from sluice_airflow.api import errors
from sluice_airflow.api.security import Reader
from sluice_airflow.api.stores import Database, Tasks
from sluice_airflow.console.chart_address import address_of, read_address
from sluice_airflow.console.forms import Form, Given
from sluice_airflow.console.page import lead_to, page
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)

#: What a page says after something was done.
DONE = {"pinned": "Pinned, at the end.", "saved": "Saved.", "copied": "This copy is yours."}


def dashboards(database: Database) -> Dashboards:
    return Dashboards(database)


Boards = Annotated[Dashboards, Depends(dashboards)]
#: A number as PostgreSQL's integers are.
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
Did = Annotated[str, Query(max_length=20)]


class Tile(NamedTuple):
    """A chart of a dashboard's page."""

    title: str
    task: str
    address: str  # of its page and of its data; empty if `wrong`
    wrong: str  # why it cannot be drawn


@router.get("/dashboards")
def listed(request: Request, user: Reader, boards: Boards) -> Response:
    """The user's dashboards, and those that others share."""
    return _listed(request, user, boards)


@router.post("/dashboards")
def create(request: Request, user: Reader, boards: Boards, given: Given) -> Response:
    """A new dashboard without charts."""
    try:
        made = boards.create(user.get_name(), given.get("name"))
    except DashboardRefused as refused:
        return _listed(request, user, boards, str(refused), given.get("name"))
    return to(request, made.id)


@router.get("/dashboards/{number}")
def dashboard(
    request: Request,
    user: Reader,
    boards: Boards,
    tasks: Tasks,
    number: Number,
    *,
    did: Did = "",
    bare: bool = False,
) -> Response:
    """A dashboard; its charts ask for their data themselves."""
    found = boards.get(number, user.get_name())
    return page(
        request,
        "dashboard.html",
        user,
        here="dashboards",
        title=found.name,
        dashboard=found,
        own=found.owner == user.get_name(),
        tiles=tiles(found, {task.name for task in tasks.list()}),
        said=DONE.get(did, ""),
        bare=bare,
    )


@router.post("/dashboards/{number}/duplicate")
def duplicate(request: Request, user: Reader, boards: Boards, number: Number) -> Response:
    """A copy for the user."""
    try:
        return to(request, boards.duplicate(number, user.get_name()).id, "?did=copied")
    except DashboardRefused as refused:
        return _listed(request, user, boards, str(refused))


@router.get("/dashboards/{number}/delete")
def ask_to_delete(request: Request, user: Reader, boards: Boards, number: Number) -> Response:
    """Ask whether the dashboard is to be deleted."""
    return _asked(request, user, boards.own(number, user.get_name()))


@router.post("/dashboards/{number}/delete")
def delete(request: Request, user: Reader, boards: Boards, number: Number, given: Given) -> Response:
    """Delete the dashboard as the user saw it."""
    try:
        boards.delete(number, user.get_name(), version(given))
    except DashboardChanged as changed:
        return _asked(request, user, changed.dashboard, str(changed), errors.CHANGED)
    return to(request)


def tiles(found: Dashboard, names: set[str]) -> list[Tile]:
    """The charts as they can be drawn now: a task may be gone, and an address no longer valid.

    names: those of all tasks.
    """
    made = []
    for title, text in found.charts:
        try:
            chart = read_address(text)
        except BadQuery as error:
            made.append(Tile(title, "", "", str(error)))
            continue
        there = chart.task in names
        wrong = "" if there else f"There is no task {chart.task} now, so nothing can be drawn."
        made.append(Tile(title, chart.task, address_of(chart) if there else "", wrong))
    return made


def version(given: Form) -> int:
    """The version that a form was made of. Raises HTTPException."""
    return whole(given.get("version"), "version")


def whole(text: str, field: str) -> int:
    """A number of a form. Raises HTTPException."""
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(2**31))):
        raise HTTPException(
            errors.UNPROCESSABLE, f"{field}: {text[:20]!r} is no number: send the page's own form"
        )
    return int(text)


def to(request: Request, number: int | None = None, rest: str = "") -> Response:
    """Leads to a dashboard, or to the list of them. rest: what the address has after it."""
    return lead_to(request, f"/dashboards/{number}{rest}" if number else "/dashboards")


def _listed(
    request: Request, user: BaseUser, boards: Dashboards, wrong: str = "", name: str = ""
) -> Response:
    shared = boards.shared_with(user.get_name())
    return page(
        request,
        "dashboards.html",
        user,
        errors.UNPROCESSABLE if wrong else status.HTTP_200_OK,
        here="dashboards",
        title="Dashboards",
        own=boards.of(user.get_name()),
        shared=shared,
        cut=len(shared) == MOST_LISTED,
        most=MOST,
        longest=LONGEST_NAME,
        wrong=wrong,
        name=name,
    )


def _asked(
    request: Request, user: BaseUser, found: Dashboard, wrong: str = "", code: int = status.HTTP_200_OK
) -> Response:
    title = f"Delete {found.name}?"
    values = {"here": "dashboards", "title": title, "dashboard": found, "wrong": wrong}
    return page(request, "dashboard_delete.html", user, code, **values)
