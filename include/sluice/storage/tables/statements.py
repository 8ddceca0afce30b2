"""The statements of the SQL endpoint: who runs what, and how to end one.

The endpoint answers the two statements of its own itself (`Listing.java`): the platform's own user sees and
cancels everybody's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from sluice.runtime.settings import Settings
from sluice.storage.hive import Hive, SqlFailed

_ID = re.compile(r"[a-z0-9]{1,20}")
_MISSING = "no statement "


class StatementMissing(LookupError):
    """No such statement runs."""


@dataclass(frozen=True)
class Statement:
    """A statement whose result is not closed yet.

    since: when it came. seconds: how long the endpoint has worked for it. state: waits (in line), runs,
    sends (its result), is read (its client may ask for more) or stops. statement: its first 300 letters, with
    control characters as ``\\uNNNN``.
    """

    id: str
    user: str
    since: datetime
    seconds: float
    state: str
    statement: str

    @property
    def name(self) -> str:
        """What the history calls it."""
        return f"{self.id} of {self.user}"


def running(settings: Settings, user: str | None = None) -> list[Statement]:
    """Everybody's statements, or one user's, in the order in which they came. Raises SqlUnavailable."""
    with Hive(settings, tables=False) as hive:
        rows = hive.query("SHOW STATEMENTS").rows
    found = [Statement(id_, who, datetime.fromisoformat(since), *rest) for id_, who, since, *rest in rows]
    return [each for each in found if user in (None, each.user)]


def cancel(settings: Settings, wanted: str, user: str | None = None) -> Statement:
    """End a statement; with `user` only one of that user's. Raises StatementMissing, SqlUnavailable."""
    known = {each.id: each for each in running(settings, user)} if _ID.fullmatch(wanted) else {}
    if wanted not in known:
        raise StatementMissing(
            f"{_MISSING}{wanted!r} runs: `sluice sql --list` and GET /sql/statements show those that do"
        )
    try:
        with Hive(settings, tables=False) as hive:
            hive.query(f"CANCEL STATEMENT '{wanted}'")
    except SqlFailed as error:
        if _MISSING not in str(error):
            raise
        raise StatementMissing(f"{_MISSING}{wanted!r} runs any more") from None
    return known[wanted]
