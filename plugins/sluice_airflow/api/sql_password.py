"""A password for the SQL endpoint, for those who log in by an identity provider or a directory.

The endpoint knows users by their passwords, and these people have none here. So the platform makes one, which
ends with the log-in that asked for it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, HTTPException, status
from pydantic import BaseModel, Field

from sluice.stack import journal
from sluice.stack.admitted import Admitted
from sluice.stack.users import UserError
from sluice_airflow.api.security import UnhurriedReader
from sluice_airflow.api.stores import Instance
from sluice_airflow.auth import SECONDS, Person

router = APIRouter(prefix="/sql", tags=["sql"])


class SqlPasswordOut(BaseModel):
    """What to log in with at the SQL endpoint."""

    user: str
    password: str = Field(description="It is kept nowhere else: a second call makes another one.")
    until: datetime = Field(description="When it ends, if nobody logs out before.")


_EXAMPLE = {"user": "ann", "password": "Hx0o...", "until": "2015-05-17T18:05:03Z"}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    201: {"content": {"application/json": {"example": _EXAMPLE}}},
    409: {"description": "You have a password here: it opens the SQL endpoint, too."},
}


@router.post("/password", status_code=status.HTTP_201_CREATED, responses=_RESPONSES)
def make_sql_password(user: UnhurriedReader, settings: Instance) -> SqlPasswordOut:
    """Make a password for the SQL endpoint, for people of an identity provider or a directory.

    It ends with the log-in of the token that is sent, and takes the place of the one before.
    """
    if not isinstance(user, Person):
        raise HTTPException(status.HTTP_409_CONFLICT, "the platform has a password of its own")
    until = user.log_in.at + SECONDS
    try:
        password = Admitted(settings).make_sql_password(user.get_name(), user.log_in.generation, until)
    except UserError as error:
        raise HTTPException(status.HTTP_409_CONFLICT, str(error)) from None
    name = user.get_name()
    journal.note(settings, who=name, what="user", name=name, action="password for SQL")
    return SqlPasswordOut(user=name, password=password, until=datetime.fromtimestamp(until, UTC))
