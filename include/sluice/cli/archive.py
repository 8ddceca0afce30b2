"""`sluice archive ...`: check the master dataset on HDFS, repair and compact it, and rebuild its index."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from sluice.cli.output.format import Format, write

app = typer.Typer(
    help="The master dataset on HDFS: verify, repair and compact it, rebuild its index.",
    no_args_is_help=True,
)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
COLUMNS = ("topic_id", "partition", "files", "records", "lines", "redacted", "first", "next")


@app.command()
def verify(
    topic: Topic,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file as a whole, not its footer.")] = False,
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Check that a topic's archive is whole: each footer, each chain of files, the index.

    It reads the footer of every file of each incarnation of the topic, and reports its progress on standard
    error. The files of a partition must form one chain of offsets, without a gap or an overlap, and the index
    in PostgreSQL must list just these files. A partition with several faults has a row for each of them.
    `redacted` counts the lines that were erased: they keep their places, so they are among `lines`.

    Examples:
      sluice archive verify logs
      sluice archive verify logs --deep     reads every line, too

    Exit code 1 if something is wrong; the table says what.
    """
    from sluice.archive.verification import verify as check
    from sluice.runtime.settings import get_settings

    found = []
    for each in check(get_settings(), topic, deep=deep):
        typer.echo(f"partition {each.partition} of {each.topic_id}: {each.files:,} files", err=True)
        found.append(each)
    rows = [
        [*(getattr(each, name) for name in COLUMNS), problem]
        for each in found
        for problem in each.problems or (None,)
    ]
    write((*COLUMNS, "problem"), rows, style)
    raise typer.Exit(1 if any(each.problems for each in found) else 0)


@app.command()
def repair(topic: Topic) -> None:
    """Take from Kafka again what a topic's archive lacks: files that are gone or damaged, and gaps.

    It reads every file, as verify --deep does. A damaged file is kept beside its replacement, under a name
    that begins with .damaged. Nothing else changes: the offsets, so days and results, stay the same.

    Example:
      sluice archive repair logs

    Exit code 1 if Kafka no longer has something; the table says what. Restore such files from a snapshot, or
    declare their offsets lost: sluice archive verify has the command.
    """
    from sluice.archive.repair import repair as take
    from sluice.runtime.settings import get_settings

    found = []
    for each in take(get_settings(), topic):
        done = each.why_not or f"{each.lines:,} lines are archived again"
        typer.echo(f"partition {each.partition}, offsets {each.first} to {each.next - 1}: {done}")
        found.append(each)
    if not found:
        typer.echo(f"the archive of {topic} lacks nothing")
    raise typer.Exit(1 if any(each.why_not for each in found) else 0)


@app.command()
def compact(
    topic: Annotated[str, typer.Argument(metavar="[TOPIC]", help="The topic's name; all if none.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many files would be merged.")
    ] = False,
) -> None:
    """Merge the archive's small files into large ones, as the DAG compaction does every night.

    It merges files that were written before yesterday began (UTC), up to archive.merged_bytes together. The
    lines and their offsets stay the same. Nights, the archiver and readers go on meanwhile: a merged file
    takes the place of its parts at once. The parts are deleted by a run archive.replaced_hours later.
    It reports each merged file on standard error. A run that was cut short can be repeated.

    Examples:
      sluice archive compact --dry-run
      sluice archive compact logs

    Exit code 1 if something could not be merged: the rest is, and standard error names it.
    """
    from sluice.archive.compaction import compact as merge
    from sluice.archive.verification import archived_topics
    from sluice.runtime.settings import get_settings

    settings = get_settings()
    trouble = False
    for name in [topic] if topic else archived_topics(settings):
        for done in merge(settings, name, dry_run=dry_run, tell=partial(typer.echo, err=True)):
            typer.echo(done.planned if dry_run else str(done))
            for problem in done.problems:
                typer.echo(f"{done.place}: {problem}", err=True)
            trouble = trouble or bool(done.problems)
    raise typer.Exit(1 if trouble else 0)


@app.command("rebuild-index")
def rebuild_index(topic: Topic) -> None:
    """Rebuild a topic's index from the footers of its files; the files stay as they are.

    The nightly batch and retention find files through the index. The index follows from the files, so
    rebuilding it loses nothing, and this can run while the archiver does.

    Example:
      sluice archive rebuild-index logs
    """
    from sluice.archive.verification import rebuild
    from sluice.runtime.settings import get_settings

    files = 0
    for place, count in rebuild(get_settings(), topic):
        typer.echo(f"partition {place.partition} of {place.topic_id}: {count:,} files", err=True)
        files += count
    typer.echo(f"{topic}: {files:,} files are indexed")
