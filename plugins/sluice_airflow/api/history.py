"""Who changed what: everything for those who run the platform, their own changes for others."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import sqlalchemy as sa
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, HTTPException, Query, status
from pydantic import AwareDatetime, BaseModel, Field

from sluice.storage.tables import history
from sluice.storage.tables.history import MOST, HistoryRecord
from sluice_airflow.api.security import Reader, operates
from sluice_airflow.api.stores import Database

router = APIRouter(tags=["history"])


class EntryOut(BaseModel, from_attributes=True):
    """One change."""

    id: int
    at: datetime
    who: str = Field(
        description="A user; `host:ann` for a command on the machine, `sluice` for the platform."
    )
    origin: str = Field(
        description="Where it came from: `uid:1000` for a user of the machine, an address, `command line`, "
        "`inside` for the instance's own network, `platform`."
    )
    what: str = Field(description="What was changed.", examples=["task"])
    name: str
    action: str
    before: str = Field(description="In short; empty if there was nothing.")
    after: str = Field(description="In short; empty if nothing is left.")


User = Annotated[str | None, Query(max_length=100, description="Only changes by this user.")]
What = Annotated[str | None, Query(max_length=40, description="Only changes of this.", examples=["task"])]


@router.get("/history", responses={403: {"description": "Only op and admin see what others changed."}})
def get_history(
    reader: Reader,
    database: Database,
    *,
    user: User = None,
    what: What = None,
    since: Annotated[AwareDatetime | None, Query(description="Only changes since then.")] = None,
    before: Annotated[int | None, Query(ge=0, description="Only entries with a smaller id.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST, description="At most this many entries, the newest.")] = 100,
) -> list[EntryOut]:
    """Who changed what, the newest first; roles below op see what they changed themselves."""
    found = visible(database, reader, user, what=what, since=since, before=before, limit=limit)
    return [EntryOut.model_validate(each) for each in found]


def visible(
    database: sa.Engine,
    reader: BaseUser,
    user: str | None,
    *,
    what: str | None = None,
    since: datetime | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[HistoryRecord]:
    """The entries that the reader may see. Raises HTTPException."""
    if not operates(reader):
        if user not in (None, reader.get_name()):
            raise HTTPException(
                status.HTTP_403_FORBIDDEN, f"user: {user!r}: you see only what you changed yourself"
            )
        user = reader.get_name()
    return history.entries(database, who=user, what=what, since=since, before=before, limit=limit)
