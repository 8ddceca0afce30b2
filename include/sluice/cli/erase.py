"""`sluice erase`: erase the lines of a person from a topic."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.asked_by import me
from sluice.cli.output.format import Format, write

if TYPE_CHECKING:
    import sqlalchemy as sa

    from sluice.erasure.request import ErasureRequest
    from sluice.runtime.settings import Settings
    from sluice.storage.tables.epochs import PeriodKey
    from sluice.storage.tables.erasures import Erasure

COUNTS = ("lines", "counted", "dead", "files")
COLUMNS = ("id", "topic", "dimension", "days", "state", *COUNTS, "by", "at", "finished")
#: Instead of a value: it comes on standard input.
STANDARD_INPUT = "-"
#: What a command cannot reach.
ELSEWHERE = (
    "not reached: the front-ends' own files; backups, until they are replaced; what somebody exported, "
    "printed or keeps in a notebook. A copy that a front-end sends again is archived, and counts no more: "
    "erase again then"
)


class BadErasure(ValueError):
    """An option of the command is missing, or does not go with another."""


OfDimension = Annotated[
    str, typer.Option(metavar="NAME", help="A dimension of the topic's tasks, or a field of its format.")
]
OfValue = Annotated[
    str, typer.Option(metavar="TEXT", help="Whose lines are erased; - reads it from standard input.")
]
Abandoned = Annotated[
    int | None,
    typer.Option("--abandon", metavar="ID", help="End an erasure that has redacted nothing yet."),
]
FromDay = Annotated[
    dt.datetime | None,
    typer.Option("--from", formats=["%Y-%m-%d"], metavar="DAY", help="The first day of event time (UTC)."),
]
ToDay = Annotated[
    dt.datetime | None,
    typer.Option("--to", formats=["%Y-%m-%d"], metavar="DAY", help="The last day, included."),
]


def erase(
    topic: Annotated[str, typer.Argument(metavar="[TOPIC]", help="The topic's name.")] = "",
    dimension: OfDimension = "",
    value: OfValue = "",
    first: FromDay = None,
    last: ToDay = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be erased.")] = False,
    abandoned: Abandoned = None,
    list_: Annotated[bool, typer.Option("--list", help="Only show the erasures there were.")] = False,
) -> None:
    """Erase all lines of a topic whose dimension has a value: a person's right to be forgotten.

    In the archive each such line becomes a redacted one. Its place, its length and its day stay, so that all
    sums hold, and its bytes are gone. Files that have some are written anew; the old ones are deleted. Dead
    letters and samples of such lines are deleted; a dead letter is one if the value stands in its text. Then
    what was counted of the days is counted again, while the speed layer goes on, and results of series that
    are gone are deleted. Published days are computed again by the next night, or at once by `sluice nightly`.
    Kafka deletes no single records: all that are archived and counted are deleted.

    A task that cannot be counted again, because its metric raises for example, loses its state and results of
    these days. It is named, and the exit code is 1. Once it is mended, `sluice rebuild` counts it.

    Lines that come after the command began are not erased. A command that was cut short goes on if the same
    one is given again. Who asked, when, and how many lines are recorded; of the value only a salted hash is.

    Until an erasure is finished, no day of the topic is published. --abandon ends one that redacted no line.

    Examples:
      sluice erase logs --dimension client --value 10.0.0.1 --dry-run
      sluice erase logs --dimension client --value - --from 2015-05-17 --to 2015-05-20
      sluice erase logs --abandon 3
      sluice erase --list
    """
    from sluice.erasure.redaction_run import planned
    from sluice.runtime.settings import get_settings

    settings = get_settings()
    if list_:
        _list(settings, topic)
    elif abandoned is not None:
        _abandon(settings, topic, abandoned)
    else:
        asked = _asked(topic, dimension, value, _days(first, last))
        if dry_run:
            lines = asked.lines(settings, asked.newest_cut(settings))
            typer.echo(f"{topic}: {planned(settings, topic, lines)} would be erased")
        else:
            _erase(settings, asked)


def _asked(
    topic: str, dimension: str, value: str, days: tuple[dt.date | None, dt.date | None]
) -> ErasureRequest:
    from sluice.erasure.request import ErasureRequest

    if not (topic and dimension and value):
        raise BadErasure("name the TOPIC, the --dimension and the --value (- reads it from standard input)")
    text = sys.stdin.readline().rstrip("\n") if value == STANDARD_INPUT else value
    if not text:
        raise BadErasure("--value: it is empty, so no line has it")
    return ErasureRequest(topic, dimension, text, *days)


def _days(first: dt.datetime | None, last: dt.datetime | None) -> tuple[dt.date | None, dt.date | None]:
    since, until = (None if day is None else day.date() for day in (first, last))
    if since is not None and until is not None and since > until:
        raise BadErasure(f"--from {since} is after --to {until}: name the earlier day first")
    return since, until


def _erase(settings: Settings, asked: ErasureRequest) -> None:
    """Begin the erasure, or go on with it."""
    from sluice.erasure.kafka_records import delete_read
    from sluice.erasure.redaction_run import RedactionRun
    from sluice.storage.postgres import engine
    from sluice.storage.tables.erasures import Erasures, ErasureState

    erasure = asked.unfinished(settings)
    said = "goes on" if erasure else "begins; if it is cut short, give the same command again"
    erasure = erasure or asked.begin(settings, me())
    typer.echo(f"erasure {erasure.id} of {erasure.topic} {said}")
    if erasure.state == ErasureState.REDACTING:
        erasure = RedactionRun(settings, erasure, asked.lines(settings, erasure.cut), typer.echo).run()
    typer.echo(_counts(erasure))
    failed = _count_again(settings, erasure)
    typer.echo(delete_read(settings, erasure.topic))
    Erasures(engine(settings)).set_state(erasure.id, ErasureState.FINISHED)
    typer.echo(ELSEWHERE)
    typer.echo(f"erasure {erasure.id} is finished")
    if failed:
        _say_uncounted(engine(settings), erasure.topic, failed)
        raise typer.Exit(1)


def _counts(erasure: Erasure) -> str:
    lines, counted, dead, files = (erasure.counts.get(name, 0) for name in COUNTS)
    return (
        f"{lines:,} lines are redacted in {files:,} files of the archive: {counted:,} had been counted, "
        f"{dead:,} were dead letters, the rest were copies"
    )


def _count_again(settings: Settings, erasure: Erasure) -> dict[PeriodKey, str]:
    """Have what was counted of the erasure's days counted again, and delete results that are left over.

    Returns why a period could not be counted again, for each such one: it has no results any more.
    """
    from sluice.erasure.uncounted import delete_uncounted
    from sluice.erasure.vanished import delete_vanished
    from sluice.storage.hbase import HBase
    from sluice.storage.postgres import engine
    from sluice.storage.tables.days import Days

    topic, database = erasure.topic, engine(settings)
    failed: dict[PeriodKey, str] = {}
    if not erasure.days:
        return failed
    with HBase.of(settings) as hbase:
        for begin, end in runs_of(erasure.days):
            asked, last = _rebuild(database, topic, begin, end)
            failed |= delete_uncounted(settings, hbase, topic, asked, last)
        rows = delete_vanished(settings, hbase, topic, erasure.days, failed)
    typer.echo(
        f"{rows:,} results of series that are gone are deleted; nobody is shown them any more. HBase's files "
        "have them until its next major compaction, within eleven days"
    )
    late = Days(database, topic).superseded_among(erasure.days)
    if late:
        named = ", ".join(map(str, late))
        typer.echo(
            f"published days, which have such lines until the next night computes them again: {named}. At "
            f"once: sluice nightly --from {late[0]} --to {late[-1]}"
        )
    return failed


def _rebuild(
    database: sa.Engine, topic: str, first: dt.date, last: dt.date
) -> tuple[Collection[PeriodKey], int]:
    """Have these days counted again, and wait for it; returns which periods, and up to which commit."""
    from sluice.batch.rebuild.scope import NothingToRebuild, scope, versions_with_state, with_state
    from sluice.cli.rebuild import follow_rebuild
    from sluice.storage.tables.rebuilds import Rebuilds

    try:
        versions = versions_with_state(database, topic)
    except NothingToRebuild:
        return (), 0
    found = scope(database, topic, with_state(database, topic, versions), first, last)
    if found.expired:
        typer.echo(f"{first} to {last}: {found.left_out}. They stay until retention.days drops them")
    if not found.keys:
        return (), 0
    book = Rebuilds(database)
    asked = book.request(topic, versions, first, last, user=me())
    typer.echo(f"{first} to {last} is counted again: rebuild {asked.id}")
    return found.keys, follow_rebuild(book, asked.id, typer.echo).cut_seq or 0


def _say_uncounted(database: sa.Engine, topic: str, failed: Mapping[PeriodKey, str]) -> None:
    from sluice.tasks.store import TaskStore

    for version in sorted({key[:2] for key in failed}):
        own = [why for key, why in failed.items() if key[:2] == version]
        name = TaskStore(database).version(*version).spec.name
        typer.echo(
            f"task {name} ({version[0]}v{version[1]}) could not be counted again: {own[0]}. What was counted "
            f"of {len(own):,} periods is deleted, with its results; once that is mended, `sluice rebuild "
            f"{topic} --task {name}` counts them"
        )


def runs_of(days: Sequence[dt.date]) -> Iterator[tuple[dt.date, dt.date]]:
    """The first and the last day of each run of days that follow each other."""
    begins = [0, *(n for n, (one, other) in enumerate(pairwise(days), 1) if (other - one).days > 1)]
    ends = [*(begin - 1 for begin in begins[1:]), len(days) - 1]
    return ((days[begin], days[end]) for begin, end in zip(begins, ends, strict=True))


def _abandon(settings: Settings, topic: str, number: int) -> None:
    from sluice.erasure.redaction_run import abandon
    from sluice.storage.postgres import engine
    from sluice.storage.tables.erasures import Erasures

    erasure = Erasures(engine(settings)).get(number)
    if erasure.topic != topic:
        raise BadErasure(f"--abandon {number}: that erasure is of topic {erasure.topic!r}: name that TOPIC")
    abandon(settings, erasure, me())
    typer.echo(f"erasure {number} of {topic} is abandoned: no line was erased")


def _list(settings: Settings, topic: str) -> None:
    from sluice.storage.postgres import engine
    from sluice.storage.tables.erasures import Erasures

    rows = [
        (
            each.id,
            each.topic,
            each.dimension,
            f"{each.first_day or 'first'} to {each.last_day or 'last'}",
            each.state,
            *(each.counts.get(name, 0) for name in COUNTS),
            each.requested_by,
            each.requested_at,
            each.finished_at,
        )
        for each in Erasures(engine(settings)).all(topic)
    ]
    write(COLUMNS, rows, Format.TABLE)
