"""The statements that run at the SQL endpoint: who runs what, and how to end one.

Ops and admins see and end everybody's, all others their own.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter
from pydantic import BaseModel, Field

from sluice.storage.tables import history, statements
from sluice_airflow.api.security import Reader, operates
from sluice_airflow.api.stores import Database, Instance

router = APIRouter(prefix="/sql", tags=["sql"])


class StatementOut(BaseModel):
    """A statement whose result is not closed yet."""

    id: str
    user: str
    since: datetime = Field(description="When it came.")
    seconds: float = Field(description="How long the endpoint has worked for it.")
    state: Literal["waits", "runs", "sends", "is read", "stops"] = Field(
        description="waits: others run. is read: it is done, and its client may ask for more rows."
    )
    statement: str = Field(description="Its first 300 letters; control characters are `\\uNNNN`.")


_EXAMPLE = {
    "id": "2f",
    "user": "ann",
    "since": "2015-05-17T10:05:03Z",
    "seconds": 12.4,
    "state": "runs",
    "statement": "SELECT status, count(*) FROM logs GROUP BY status",
}
_AWAY: dict[int | str, dict[str, Any]] = {503: {"description": "The SQL endpoint does not answer."}}
_LISTED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"example": [_EXAMPLE]}}},
    **_AWAY,
}
_ENDED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"example": _EXAMPLE}}},
    404: {"description": "No such statement of yours runs."},
    **_AWAY,
}


def whose(user: BaseUser) -> str | None:
    """Whose statements the user may see and end; None: everybody's."""
    return None if operates(user) else user.get_name()


@router.get("/statements", responses=_LISTED)
def list_statements(user: Reader, settings: Instance) -> list[StatementOut]:
    """The statements that run, or whose result is read, in the order in which they came."""
    return [StatementOut.model_validate(asdict(each)) for each in statements.running(settings, whose(user))]


@router.delete("/statements/{statement}", responses=_ENDED)
def cancel_statement(statement: str, user: Reader, settings: Instance, database: Database) -> StatementOut:
    """End a statement; whoever waits for it is told. The answer is the statement as it was."""
    ended = statements.cancel(settings, statement, whose(user))
    with database.begin() as connection:
        history.record(
            connection,
            who=user.get_name(),
            what="statement",
            name=ended.name,
            action="cancelled",
            before=ended.statement,
        )
    return StatementOut.model_validate(asdict(ended))
