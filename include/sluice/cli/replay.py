"""`sluice generate` and `sluice replay`: make log lines when there is no web server."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer


def generate(
    lines: Annotated[int, typer.Option(min=1, help="How many lines.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same log.")] = 1,
    days: Annotated[int, typer.Option(min=1, max=3_650, help="How many days they are spread over.")] = 3,
    start: Annotated[
        datetime, typer.Option(formats=["%Y-%m-%d"], help="The first day (UTC).")
    ] = "2026-01-05",  # type: ignore[assignment]
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where to; default: standard output."),
    ] = None,
) -> None:
    """Write a made-up access log in Apache's combined format.

    Its keys (domains, the first segment of the path) are as frequent as in the university traffic that the
    platform was designed for: 12,078 of them, the first with 7.42 % of the lines.

    Examples:
      sluice generate --lines 1000000 -o big.log
      sluice generate --days 1 --start 2026-03-01 | head
    """
    from sluice.traffic.generate import batches, write

    if output is not None:
        write(output, lines, seed=seed, days=days, start=start.date())
        typer.echo(f"{output}: {lines:,} lines, {output.stat().st_size:,} bytes", err=True)
        return
    try:
        for batch in batches(lines, seed=seed, days=days, start=start.date()):
            sys.stdout.buffer.write(batch)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()


def replay(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="An access log, plain, .gz, .bz2, .xz or .zst.")
    ],
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="Lines a second; default: as fast as it goes.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="H", help="The front-end that writes them; default: all of them, line by line in turn."
        ),
    ] = None,
) -> None:
    """Write a log into a front-end's log directory as a web server would.

    Each line goes into the file of its day; a line that is late stays in the current file. Existing files are
    continued, so replaying a log twice counts its lines twice.

    Examples:
      sluice replay access.log.gz
      sluice replay access.log --rate 500 --host web1
    """
    from sluice.runtime.settings import get_settings
    from sluice.traffic.replay import replay as run

    def progress(lines: int, size: int) -> None:
        typer.echo(f"{lines:,} lines, {size / 1e6:,.1f} MB", err=True)

    done = run(get_settings(), file, rate, host, progress)
    if not done.lines:
        typer.echo(f"{file} has no lines: nothing was written", err=True)
    typer.echo(f"replayed {done.lines:,} lines ({done.bytes:,} bytes) into {done.files} files")
