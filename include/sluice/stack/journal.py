"""Changes outside PostgreSQL on their way into the history: of users, hosts, settings.

They may happen while PostgreSQL is away. So each is a line of a file first, and goes into the history at once
if PostgreSQL answers, else with the next change or `sluice up`. Each has a token: one that was written twice
is there once.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import uuid
from pathlib import Path
from typing import Any

from filelock import FileLock
from sqlalchemy.exc import SQLAlchemyError

from sluice.runtime.origin import origin
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import history

FILE = "history.jsonl"


def note(
    settings: Settings,
    *,
    who: str,
    what: str,
    name: str,
    action: str,
    before: object = "",
    after: object = "",
) -> None:
    """Record a change, now or as soon as PostgreSQL answers."""
    keep(
        settings.home,
        {
            "who": who,
            "what": what,
            "name": name,
            "action": action,
            "before": history.short(before),
            "after": history.short(after),
        },
    )
    take_in(settings)


def keep(home: Path, entry: dict[str, str]) -> None:
    """Write the change down in the file."""
    entry |= {"at": dt.datetime.now(dt.UTC).isoformat(), "origin": origin(), "token": uuid.uuid4().hex}
    with _alone(home), os.fdopen(os.open(_file(home), _APPEND, 0o600), "a") as out:
        out.write(json.dumps(entry) + "\n")
        out.flush()
        os.fsync(out.fileno())


def take_in(settings: Settings) -> None:
    """Move what the file has into the history, if PostgreSQL answers."""
    file = _file(settings.home)
    with _alone(settings.home):
        waiting = list(_entries(file))
        if not waiting:
            return
        try:
            with engine(settings).begin() as connection:
                history.take_in(connection, waiting)
        except SQLAlchemyError:  # it is away, or has no table yet
            return
        file.unlink()


def _entries(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    found = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
    return [{**each, "at": dt.datetime.fromisoformat(each["at"])} for each in found]


def _file(home: Path) -> Path:
    return home / "secrets" / FILE


def _alone(home: Path) -> FileLock:
    _file(home).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return FileLock(_file(home).with_suffix(".lock"), mode=0o600)


_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
