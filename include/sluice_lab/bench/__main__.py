"""Run benches, or make docs/performance.md from them: ``python -m sluice_lab.bench --help``."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Sequence

from sluice.metrics import load_team
from sluice_lab.bench.outcome import Outcome

#: The benches of `make bench`, in its order; those that need the stack come last.
ALONE = (
    "tasks",
    "flink",
    "sketches",
    "sketch_states",
    "offline",
    "kernels",
    "pass_time",
    "scale",
    "driver",
    "workers",
    "deltas",
    "age",
    "speedup",
    "start",
)
STACK = ("flume", "hbase", "archive", "archivers", "serving", "console", "lines_behind", "end_to_end")
#: Benches that bring a stack up themselves.
OWN_STACK = ("syncs",)
PLATFORM = (*ALONE, *STACK, *OWN_STACK)
#: The benches of `make bench-grouping`, in its order.
GROUPING = ("grouping_bars", "grouping")
#: Benches that only their names run.
APART = ("before", "endpoint")
BENCHES = (*PLATFORM, *GROUPING, *APART)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.names == ["page"]:
        from sluice_lab.bench.page import write

        write()
        return 0
    if options.instance:
        os.environ["SLUICE_INSTANCE"] = options.instance
    if len(options.names) == 1:
        return one(options.names[0], options.quick, options.days)
    if options.days:
        sys.stderr.write("--days: only `age` has it: give no other bench\n")
        return 2
    # Each bench has a process of its own, so that its Spark session and its memory end with it.
    command = [sys.executable, "-m", "sluice_lab.bench", *(["--quick"] if options.quick else [])]
    failed = [
        name
        for name in (options.names or PLATFORM)
        if subprocess.run([*command, name], check=False).returncode
    ]
    if failed:
        sys.stderr.write(f"bars that fail: {', '.join(failed)}\n")
    return 1 if failed else 0


def one(name: str, quick: bool, days: int | None = None) -> int:
    """Run one bench in this process; returns 1 if one of its bars fails. days: of `age` alone."""
    load_team()
    if days and name != "age":
        sys.stderr.write(f"--days: {name} has no age; only `age` has: leave it out\n")
        return 2
    aged = {"days": days} if days else {}
    outcome: Outcome = importlib.import_module(f"sluice_lab.bench.{name}").run(quick=quick, **aged)
    return outcome.report()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m sluice_lab.bench",
        description="Benchmarks: prints every bar, writes var/bench/*.json, exits 1 where a bar fails.",
    )
    made.add_argument(
        "names",
        nargs="*",
        metavar="BENCH",
        choices=[*BENCHES, "page", []],
        help=f"{', '.join(BENCHES)}; none: all but those of grouping. "
        "page: write docs/performance.md and its plots from what was measured last",
    )
    made.add_argument("--quick", action="store_true", help="less of everything; kept in var/bench/quick")
    made.add_argument("--days", type=int, metavar="N", help="age: how old the instance is; default: 400")
    made.add_argument(
        "--instance",
        metavar="NAME",
        help=f"the stack for {', '.join(STACK)}; default: the one that runs, else trial, brought up",
    )
    return made


if __name__ == "__main__":
    sys.exit(main())
