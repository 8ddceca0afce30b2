"""`sluice lab chaos`: faults drawn by chance in a running platform, and the account of every line."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

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
Rate = Annotated[float, typer.Option(min=1.0, max=10_000.0, help="Lines a second that are written.")]
Longer = Annotated[bool, typer.Option("--long", help="Stops of up to 120 s, partitions of up to 60 s.")]
Out = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Gets chaos.json and chaos.md. Default: var/bench.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the platform up at the end, to look at it.")]
FromReport = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Run nothing: put this report's figures into docs/reliability.md."),
]


def chaos(
    *,
    faults: Faults = 200,
    seed: FaultSeed = None,
    kinds: Kinds = "",
    rate: Rate = 60.0,
    long: Longer = False,
    out: Out = None,
    keep: Keep = False,
    page: FromReport = None,
) -> None:
    """Let faults happen to every part of a platform while lines are written, and count every line.

    It starts an instance of its own, `chaos`, which begins empty. Two emulated front-ends write lines, and
    faults are drawn, evenly over all pairs of a kind and a part: kill, stop, partition, power cut. Each
    recovery is timed. At the end no more lines are written; the archive is verified, and repaired if it must
    be; the nights of the lines' days are computed, and each task's results of both layers are held against
    DuckDB over the files. docs/reliability.md says what the kinds are.

    Examples:
      sluice lab chaos --faults 20 --seed 7
      sluice lab chaos --kinds kill,stop --long --out /tmp/chaos
      sluice lab chaos --page var/bench/chaos.json
      make chaos FAULTS=200 SEED=7

    Exit code 1 if the platform did not recover from a fault, or if a line is lost, doubled or in a result
    that differs.
    """
    from sluice.runtime.settings import ROOT

    if page is not None:
        from sluice_lab.chaos.report import read, write_page

        write_page(ROOT / _PAGE, read(page))
        typer.echo(f"wrote {ROOT / _PAGE}", err=True)
        return
    wanted = chosen_kinds(kinds)
    chosen = secrets.randbelow(_SEEDS) if seed is None else seed
    folder = (out or ROOT / "var" / "bench").resolve()
    typer.echo(f"seed {chosen}; the report goes to {folder}")
    sys.stdout.flush()
    flags = [*(["--long"] if long else []), *(["--keep"] if keep else [])]
    command = [
        *(sys.executable, "-P", "-m", "sluice_lab.chaos"),
        *("--faults", f"{faults}", "--seed", f"{chosen}", "--kinds", wanted),
        *("--rate", f"{rate}", "--out", f"{folder}", *flags),
    ]
    os.execv(sys.executable, command)  # noqa: S606 - Ctrl-C and SIGTERM reach it as they reached this


def chosen_kinds(names: str) -> str:
    """The kinds that were asked for, or all. Raises BadParameter for one that is none."""
    wanted = [name.strip().replace("-", " ").replace("_", " ") for name in names.split(",") if name.strip()]
    known = [str(kind) for kind in FaultKind]
    if unknown := [name for name in wanted if name not in known]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(known)}", param_hint="--kinds")
    return ",".join(dict.fromkeys(wanted or known))
