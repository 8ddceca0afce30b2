"""The page of changes: who changed what, when, and from where."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from sluice_airflow.api.history import visible
from sluice_airflow.api.security import Reader, operates
from sluice_airflow.api.stores import Database
from sluice_airflow.console.days import AskedDay
from sluice_airflow.console.page import page
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)

#: Changes on a page.
SHOWN = 100
WHATS = ("task", "list", "topic", "dashboard", "days", "user", "host", "job", "placement", "settings")


@router.get("/history")
def changes(
    request: Request,
    user: Reader,
    database: Database,
    *,
    who: Annotated[str, Query(max_length=100)] = "",
    what: Annotated[str, Query(max_length=40)] = "",
    since: AskedDay | None = None,
    before: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """The newest changes; those below op see their own."""
    begin = datetime(since.year, since.month, since.day, tzinfo=UTC) if since else None
    found = visible(database, user, who or None, what=what or None, since=begin, before=before, limit=SHOWN)
    return page(
        request,
        "history.html",
        user,
        here="history",
        title="History",
        entries=found,
        who=who,
        what=what,
        since=since,
        whats=WHATS,
        sees_all=operates(user),
        older=found[-1].id if len(found) == SHOWN else None,
    )
