"""`sluice history`: who changed what."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from sluice.cli.output.format import Format, write

COLUMNS = ("at", "who", "origin", "what", "name", "action", "before", "after")


def history(
    user: Annotated[
        str, typer.Option(help="Only changes by this user; host:ann is a user of this machine.")
    ] = "",
    since: Annotated[
        dt.datetime | None, typer.Option(help="Only changes since then, in UTC, e.g. 2015-05-17.")
    ] = None,
    what: Annotated[
        str, typer.Option(help="Only changes of this: task, list, topic, dashboard, days, user, host, ...")
    ] = "",
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, help="At most this many entries, the newest.")
    ] = 100,
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Show who changed what, when, and from where, the newest first.

    Changes by commands, by the REST API and by the console are entries that nobody can change.

    Examples:
      sluice history --user ann --since 2015-05-17
      sluice history --what user --format json
    """
    from sluice.runtime.settings import get_settings
    from sluice.stack import journal
    from sluice.storage.postgres import engine
    from sluice.storage.tables import history as book

    settings = get_settings()
    journal.take_in(settings)
    begin = since.replace(tzinfo=dt.UTC) if since is not None else None
    found = book.entries(engine(settings), who=user, what=what, since=begin, limit=limit)
    write(COLUMNS, [[getattr(each, column) for column in COLUMNS] for each in found], style)
