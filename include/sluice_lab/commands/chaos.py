"""`sluice lab chaos`: faults drawn by chance in a running platform, and the account of every line."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from sluice.runtime.settings import ROOT
from sluice_lab.chaos.draws import FaultKind

_SEEDS = 1_000_000
_PAGE = Path("docs") / "reliability.md"

Faults = Annotated[int, typer.Option(min=1, help="How many.")]
FaultSeed = Annotated[
    int | None, typer.Option(min=0, help="The same seed draws the same faults. Default: one by chance.")
]
Kinds = Annotated[
    str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(FaultKind)}. Default: all that can happen.")
]
Without = Annotated[
    list[str] | None,
    typer.Option(metavar="KIND:PART", help="Not this kind to this part. Can be given several times."),
]
Rate = Annotated[float, typer.Option(min=1.0, max=10_000.0, help="Lines a second that are written.")]
Longer = Annotated[
    bool,
    typer.Option("--long", help="Faults that last up to 120 s, on the network 60 s, full disks 300 s."),
]
Out = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Gets chaos.json and chaos.md. Default: var/bench.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the platform up at the end, to look at it.")]
FromReports = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Run nothing: put this report's figures into docs/reliability.md. Given several times, the "
        "figures of these runs together.",
    ),
]


def chaos(
    *,
    faults: Faults = 200,
    seed: FaultSeed = None,
    kinds: Kinds = "",
    without: Without = None,
    rate: Rate = 60.0,
    long: Longer = False,
    out: Out = None,
    keep: Keep = False,
    page: FromReports = None,
) -> None:
    """Let faults happen to every part of a platform while lines are written, and count every line.

    It starts an instance of its own, `chaos`, which begins empty. Two emulated front-ends write lines, and
    faults are drawn, evenly over all pairs of a kind and a part: kill, stop, partition, power cut, full disk,
    slow network, slow disk, wrong clock. Each recovery is timed. At the end no more lines are written; the
    archive is verified, and repaired if it must be; the nights of the lines' days are computed, and each
    task's results of both layers are held against DuckDB over the files. docs/reliability.md says what the
    kinds are.

    Examples:
      sluice lab chaos --faults 20 --seed 7
      sluice lab chaos --kinds kill,stop --long --out /tmp/chaos
      sluice lab chaos --without "power cut:datanode"
      sluice lab chaos --page var/bench/chaos.json
      make chaos FAULTS=200 SEED=7

    Exit code 1 if the platform did not recover from a fault, or if a line is lost, doubled or in a result
    that differs.
    """
    if page:
        _write_page(page)
        return
    options = [
        *("--faults", f"{faults}", "--kinds", chosen_kinds(kinds), "--rate", f"{rate}"),
        *(text for each in without or () for text in ("--without", chosen_pair(each))),
        *(["--long"] if long else []),
        *(["--keep"] if keep else []),
    ]
    _become(options, secrets.randbelow(_SEEDS) if seed is None else seed, out)


def _become(options: Sequence[str], seed: int, out: Path | None) -> NoReturn:
    """Go on as the program that enters the instance's network; Ctrl-C and SIGTERM then reach that one."""
    folder = (out or ROOT / "var" / "bench").resolve()
    typer.echo(f"seed {seed}; the report goes to {folder}")
    sys.stdout.flush()
    command = [sys.executable, "-P", "-m", "sluice_lab.chaos", "--seed", f"{seed}", "--out", f"{folder}"]
    os.execv(sys.executable, [*command, *options])  # noqa: S606


def _write_page(figures: Sequence[Path]) -> None:
    from sluice_lab.chaos.report import read, write_page

    write_page(ROOT / _PAGE, [read(each) for each in figures])
    typer.echo(f"wrote {ROOT / _PAGE}", err=True)


def chosen_kinds(names: str) -> str:
    """The kinds that were asked for, or all. Raises BadParameter for one that is none."""
    wanted = [_kind(name, "--kinds") for name in names.split(",") if name.strip()]
    return ",".join(dict.fromkeys(wanted or FaultKind))


def chosen_pair(text: str) -> str:
    """KIND:PART, with the kind as it is known. Raises BadParameter if it is no such pair."""
    kind, colon, part = text.partition(":")
    if not colon or not part.strip():
        raise typer.BadParameter(
            f"{text!r}: name a kind and a part, such as kill:kafka", param_hint="--without"
        )
    return f"{_kind(kind, '--without')}:{part.strip()}"


def _kind(name: str, option: str) -> str:
    wanted = name.strip().replace("-", " ").replace("_", " ")
    if wanted not in [*FaultKind]:
        raise typer.BadParameter(f"{wanted!r} is none of {', '.join(FaultKind)}", param_hint=option)
    return wanted
