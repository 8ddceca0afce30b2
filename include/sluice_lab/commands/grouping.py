"""`sluice lab ...`: strategies of grouping, assignors and placement without a running platform, and chaos."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.output.format import Format, write
from sluice_lab.commands.chaos import chaos
from sluice_lab.commands.placement import placement
from sluice_lab.commands.transmission import transmission

if TYPE_CHECKING:
    from sluice.tasks.extract import Extract
    from sluice_lab.trials import Row, Setting

app = typer.Typer(
    help="The laboratory: strategies of grouping on streams, assignors of consumer groups, placement, chaos.",
    no_args_is_help=True,
)
app.command()(transmission)
app.command()(placement)
app.command()(chaos)

#: The columns of a row that are shown; a CSV file has all columns.
_SHOWN = (
    "strategy", "stream", "workers", "batch", "relative", "share", "absolute", "makespan", "replicas", "held",
    "sent", "partials", "ns", "boundary_ms", "source_kib", "state_kib",
)  # fmt: skip
_DIGITS = 4


Strategies = Annotated[
    str,
    typer.Option(metavar="NAME,...", help="Which; kg2:support=0.01 sets a parameter. Default: all of them."),
]
Streams = Annotated[
    list[str],
    typer.Option(
        metavar="NAME",
        help="edu, isp, zipf:Z[:KEYS], file:PATH, or a stream that drifts: appear, fade, swap or "
        "move[@BATCH]:STREAM, at batch 1.5 by default. Can be given several times.",
    ),
]
Workers = Annotated[str, typer.Option(metavar="N,...", help="How many, 1 to 65,536.")]
Sources = Annotated[int, typer.Option(min=1, max=1_000, help="Each routes its part of the tuples.")]
Times = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The workers' times a tuple: equal, slow (the last is 4, the others 1), spread (1 to 4), "
        "network (the distances of paper 001), or each worker's: 1,1,2.5.",
    ),
]
Tuples = Annotated[int, typer.Option(min=1, help="How many a batch has.")]
Batches = Annotated[int, typer.Option(min=1, help="How many; the last one is shown.")]
EveryBatch = Annotated[bool, typer.Option("--every-batch", help="Show all of them.")]
Utilisations = Annotated[
    str,
    typer.Option(metavar="U,...", help="Also show latencies in the last batch at these parts of full load."),
]
State = Annotated[int, typer.Option("--state", min=0, metavar="BYTES", help="A key's state at a worker.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed routes the same tuples alike.")]
Field = Annotated[str | None, typer.Option(help="file: the key is this field of an access log, e.g. client.")]
Delimiter = Annotated[str | None, typer.Option(help="file: the key is a field between two of these ...")]
Index = Annotated[int, typer.Option(min=0, help="file: ... the field of this number, from 0.")]
Regex = Annotated[str | None, typer.Option(help="file: the key is the first group of this pattern.")]
Style = Annotated[Format, typer.Option("--format", help="How to print.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write every batch and figure.")]
Plots = Annotated[Path | None, typer.Option(metavar="DIR", help="Draw them, as SVG files.")]


@app.command()
def grouping(
    *,
    strategy: Strategies = "",
    stream: Streams = ["edu"],  # noqa: B006 - typer copies it
    workers: Workers = "64",
    sources: Sources = 5,
    times: Times = "equal",
    tuples: Tuples = 1_000_000,
    batches: Batches = 2,
    every_batch: EveryBatch = False,
    utilisation: Utilisations = "",
    a_key: State = 16,
    seed: Seed = 0,
    field: Field = None,
    delimiter: Delimiter = None,
    index: Index = 0,
    regex: Regex = None,
    style: Style = Format.TABLE,
    to: Csv = None,
    plots: Plots = None,
) -> None:
    """Route streams by strategies of grouping, and measure balance, memory and time.

    relative, share and absolute are the imbalance: max / mean - 1, (max - mean) / sum, max - mean of the
    workers' loads. makespan: the busiest worker's time over the least possible. replicas: workers that hold a
    key, on average, in this batch; held: in all batches. sent: rows sent a tuple. partials: rows that are
    merged. ns: the time to route a tuple; boundary_ms: the time to plan between batches. source_kib,
    state_kib: the memory of the source and of the worker that have most.

    Examples:
      sluice lab grouping --workers 5,10,20,50
      sluice lab grouping --strategy key,pkg,planned --stream zipf:1.4:10000000 --workers 1000
      sluice lab grouping --stream move@2.5:edu --batches 5 --every-batch --plots plots
      sluice lab grouping --stream file:access.log.gz --field client --times spread --utilisation 0.5,0.9
    """
    strategies = _strategies(strategy)
    widths = [_whole(each) for each in _names(workers)]
    extract = _extract(field, delimiter, index, regex)
    measured: list[Row] = []
    waited: list[Row] = []
    for setting in _settings(stream, extract, widths, times, sources, batches, tuples, seed, a_key):
        for rows, waits in _measured(strategies, setting, utilisation):
            measured += rows
            waited += waits
    _print([row for row in measured if every_batch or row["batch"] == batches], _SHOWN, style)
    _print_latencies(waited, style)
    if to is not None:
        _write_csv(measured, to)
    if plots is not None:
        _draw(measured, waited, plots)


@app.command()
def page(
    experiments: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="Measure these; none: only write the page. Default: all."),
    ] = "",
    scale: Annotated[
        float, typer.Option(min=0.001, max=1.0, help="The part of the tuples and keys to measure with.")
    ] = 1.0,
) -> None:
    """Measure what docs/grouping.md reports, and write the page and its plots.

    The measurements stay in docs/grouping, one JSON file for each experiment; the page is made from these
    files alone. Measuring everything takes some minutes; a tenth of the tuples shows the same, less exactly.

    Examples:
      sluice lab page
      sluice lab page --experiments drift,latency --scale 0.1
      sluice lab page --experiments none
    """
    from sluice_lab import experiments as kept
    from sluice_lab import page as pages

    wanted = [] if experiments == "none" else _names(experiments) or list(kept.EXPERIMENTS)
    if unknown := set(wanted) - set(kept.EXPERIMENTS):
        raise typer.BadParameter(
            f"{', '.join(sorted(unknown))}: use {', '.join(kept.EXPERIMENTS)} or none",
            param_hint="--experiments",
        )
    for name in wanted:
        typer.echo(f"measured {kept.measure(name, scale=scale)}", err=True)
    typer.echo(f"wrote {pages.write()}", err=True)


def _strategies(names: str) -> list[str]:
    """The strategies asked for. Raises UnknownStrategy before anything is measured."""
    from sluice import grouping as package
    from sluice_lab import named

    found = _names(names) or list(package.STRATEGIES)
    for each in found:
        named.strategy(each)
    return found


def _settings(
    streams: Sequence[str], extract: Extract | None, widths: Sequence[int], times: str, *numbers: int
) -> Iterator[Setting]:
    """Each stream with each number of workers."""
    from sluice_lab import named, trials

    for name in streams:
        source = named.stream(name, extract)
        for width in widths:
            yield trials.Setting(source, width, times, *numbers)


def _measured(
    strategies: Sequence[str], setting: Setting, utilisation: str
) -> Iterator[tuple[Sequence[Row], Sequence[Row]]]:
    """What each strategy does in this setting: figures by batch, and latencies."""
    from sluice_lab import trials

    utilisations = [_number(each) for each in _names(utilisation)]
    keys = setting.keys()
    for each in strategies:
        found = trials.run(each, setting, keys)
        yield trials.rows(each, setting, found), list(trials.waits(each, setting, found, utilisations))


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is no number of workers", param_hint="--workers")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number", param_hint="--utilisation") from None


def _extract(field: str | None, delimiter: str | None, index: int, regex: str | None) -> Extract | None:
    """How a file's keys are cut out; None: the line is the key."""
    from sluice.tasks.extract import Extract

    if field is None and delimiter is None and regex is None:
        return None
    return Extract(field=field, delimiter=delimiter, index=None if delimiter is None else index, regex=regex)


def _print_latencies(waited: Sequence[Row], style: Format) -> None:
    if waited:
        typer.echo()
        _print(waited, [*waited[0]], style)


def _print(rows: Sequence[Row], columns: Sequence[str], style: Format) -> None:
    write(columns, [[_short(row[name]) for name in columns] for row in rows], style)


def _short(value: str | int | float) -> str | int | float:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _write_csv(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    typer.echo(f"{path}: {len(rows):,} rows", err=True)


def _draw(measured: Sequence[Row], waited: Sequence[Row], folder: Path) -> None:
    from sluice_lab.plots import draw_all

    for path in draw_all(measured, waited, folder):
        typer.echo(str(path), err=True)
