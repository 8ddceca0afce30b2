"""`sluice archive ...`: check the master dataset on HDFS, and rebuild its index."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.cli.output.format import Format, write

app = typer.Typer(help="The master dataset on HDFS: verify it, rebuild its index.", no_args_is_help=True)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
COLUMNS = ("topic_id", "partition", "files", "records", "lines", "first", "next", "problem")


@app.command()
def verify(
    topic: Topic,
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Check that a topic's archive is whole: each footer, each chain of files, the index.

    It reads the footer of every file of each incarnation of the topic, and reports its progress on standard
    error. The files of a partition must form one chain of offsets, without a gap or an overlap, and the index
    in PostgreSQL must list just these files.

    Example:
      sluice archive verify logs

    Exit code 1 if something is wrong; the table says what.
    """
    from sluice.archive.verification import verify as check
    from sluice.runtime.settings import get_settings

    found = []
    for each in check(get_settings(), topic):
        typer.echo(f"partition {each.partition} of {each.topic_id}: {each.files:,} files", err=True)
        found.append(each)
    write(COLUMNS, [[getattr(each, name) for name in COLUMNS] for each in found], style)
    raise typer.Exit(1 if any(each.problem for each in found) else 0)


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
