"""The page of the SQL endpoint: how to connect, and the statements that run, with a button that ends one."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from sluice.stack.users import Users
from sluice.storage.tables import statements
from sluice_airflow.api.security import Reader, UnhurriedReader
from sluice_airflow.api.sql_password import make_sql_password
from sluice_airflow.api.statements import cancel_statement, whose
from sluice_airflow.api.stores import Database, Instance
from sluice_airflow.console.page import lead_to, page
from sluice_airflow.console.route import PageRoute

router = APIRouter(route_class=PageRoute)


@router.get("/statements")
def listed(request: Request, user: Reader, settings: Instance) -> Response:
    """How the user connects, and the statements that the user may end."""
    own, known = whose(user), Users(settings).all().get(user.get_name())
    return page(
        request,
        "statements.html",
        user,
        here="platform",
        title="SQL statements",
        statements=statements.running(settings, own),
        everybody=own is None,
        endpoint=settings.hive,
        elsewhere=known is not None and bool(known.origin),
    )


@router.post("/statements/password")
def password(request: Request, user: UnhurriedReader, settings: Instance) -> Response:
    """Make a password for SQL, and show it once."""
    made = make_sql_password(user, settings)
    return page(request, "sql_password.html", user, here="platform", title="Your password for SQL", made=made)


@router.post("/statements/{statement}/cancel")
def cancel(
    request: Request, user: Reader, settings: Instance, database: Database, statement: str
) -> Response:
    """End a statement, and show the others."""
    cancel_statement(statement, user, settings, database)
    return lead_to(request, "/statements")
