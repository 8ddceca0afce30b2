"""The page of the statements that run at the SQL endpoint, and a button that ends one."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response, status
from fastapi.responses import RedirectResponse

from sluice.storage import statements
from sluice_airflow.api.security import Reader
from sluice_airflow.api.statements import cancel_statement, whose
from sluice_airflow.api.stores import Database, Instance
from sluice_airflow.console.page import PATH, page
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)


@router.get("/statements")
def listed(request: Request, user: Reader, settings: Instance) -> Response:
    """The statements that the user may end."""
    own = whose(user)
    return page(
        request,
        "statements.html",
        user,
        here="platform",
        title="SQL statements",
        statements=statements.running(settings, own),
        everybody=own is None,
    )


@router.post("/statements/{statement}/cancel")
def cancel(
    request: Request, user: Reader, settings: Instance, database: Database, statement: str
) -> Response:
    """End a statement, and show the others."""
    cancel_statement(statement, user, settings, database)
    root = request.scope.get("root_path", "")
    return RedirectResponse(f"{root}{PATH}/statements", status.HTTP_303_SEE_OTHER)
