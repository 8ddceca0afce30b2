"""What `sluice deadletters` prints: letters in a list, and one letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from sluice.cli.output.format import plain, table

if TYPE_CHECKING:
    from sluice.storage.tables.dead_letters import DeadLetter
    from sluice.tasks.topic_spec import TopicSpec

GROUP_COLUMNS = ("reason", "letters", "partition", "host", "file", "first", "last")
#: Characters of a line in a list.
SHOWN = 100


def print_list(groups: Sequence[Sequence[Any]], rest: int, newest: Sequence[DeadLetter]) -> None:
    """Print rows of GROUP_COLUMNS, how many more there are, and the newest letters."""
    if not groups:
        typer.echo("no dead letters")
        return
    typer.echo(table(GROUP_COLUMNS, plain(groups)), nl=False)
    if rest:
        typer.echo(f"and {rest:,} more groups: --format csv has all of them")
    rows = [[each.place, each.arrived_at, each.reason, _beginning(each)] for each in newest]
    typer.echo("\n" + table(["id", "arrived", "reason", "line"], plain(rows)), nl=False)


def about(letter: DeadLetter, topic: TopicSpec) -> list[tuple[str, object]]:
    """What is known of a letter beside its line."""
    from sluice.letters.explanation import remedy, tried
    from sluice.runtime.positions import shown

    record = f"partition {letter.partition}, offset {shown(letter.offset)}"
    return [
        ("topic", letter.topic),
        ("id", letter.place),
        ("reason", letter.reason),
        ("arrived", plain(letter.arrived_at)),
        ("host", letter.host),
        ("file", letter.src_file),
        ("offset in it", letter.src_offset),
        ("Kafka", f"{record}, line {letter.line_in_record}"),
        ("last offset", None if letter.last_offset is None else shown(letter.last_offset)),
        ("bytes", f"{letter.size:,}"),
        ("tried", tried(letter, topic)),
        ("would count by", remedy(letter)),
    ]


def _beginning(letter: DeadLetter) -> str:
    text: str = plain(letter.line)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
