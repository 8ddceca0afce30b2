"""The platform before blocks of lines, and today's: the rate that each holds on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sluice.runtime.settings import ROOT
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table

NAME = "before"
#: The last commit in which each line was an event and a record of its own, and one process wrote the state.
COMMIT = "4295c7b"
#: The packages of the benches: in that commit, and today.
BENCHES_BEFORE, BENCHES = "tests.bench", "sluice_lab.bench"
INSTANCE = "trial"
#: What it held when it was measured: the rate that is asked of today's platform over that.
LIMIT = 40_000 / 6_400
#: Seconds of the parts of `end_to_end`: overload, trials of a rate, hold, freshness, almost empty batches.
TIMES, QUICK = (20, 45, 120, 60, 30), (5, 20, 45, 20, 20)
FIGURES = ("rate held, lines/s", "throughput under overload, lines/s", "memory of the instance, GB")
BARS = ("freshness at half that rate, median", "freshness at half that rate, 99th percentile",
        "fixed cost of an almost empty batch")  # fmt: skip

WHAT = """\
Commit {commit} is checked out beside this one, its jars are built, and its own bench `end_to_end` runs in it
on an instance of its own; then today's runs here. Both have the same {tasks} tasks, packages and times:
a hold of {hold} s instead of ten minutes. Not part of `make bench`."""

#: Runs a tree's bench as that tree has it. Arguments: the package of its benches, and the times.
RUN = """
import importlib, sys
from sluice.metrics import load_team
end_to_end = importlib.import_module(f"{sys.argv[1]}.end_to_end")
load_team()
names = ("overload", "trial", "hold", "fresh", "empty")
end_to_end.QUICK = end_to_end.Times(**dict(zip(names, map(float, sys.argv[2:]))))
end_to_end.run(quick=True).write()
"""


def run(quick: bool = False) -> Outcome:
    from sluice_lab.bench.end_to_end import TASKS

    times = QUICK if quick else TIMES
    with checked_out(COMMIT) as tree:
        _python(tree, "-m", "sluice.stack", "jars")
        before = measured(tree, BENCHES_BEFORE, times)
    what = WHAT.format(commit=COMMIT, tasks=TASKS, hold=times[2])
    return outcome(before, measured(ROOT, BENCHES, times), what, quick)


def outcome(before: Outcome, today: Outcome, what: str, quick: bool) -> Outcome:
    old, new = figures(before), figures(today)
    rows: list[list[Cell]] = [[name, old[name], new[name], new[name] / old[name]] for name in old]
    held = FIGURES[0]
    bar = Bar("rate held, today's over before", new[held] / old[held], LIMIT)
    table = Table("Before and today", ["figure", "before", "today", "ratio"], rows)
    return Outcome(NAME, what, [bar], [table], quick=quick)


def figures(found: Outcome) -> dict[str, float]:
    """What is compared, from an outcome of `end_to_end`."""
    values = {str(row[0]): row[1] for table in found.tables for row in table.rows}
    bars = {bar.bar: bar.figure for bar in found.bars}
    return {name: float(values[name] or 0) for name in FIGURES} | {f"{name}, s": bars[name] for name in BARS}


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The tree of a commit in a temporary folder, with this one's packages and a copy of its jars.

    Raises CalledProcessError if the commit is not there, as in a shallow clone.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            (tree / ".venv").symlink_to(ROOT / ".venv")
            if (jars := ROOT / "var" / "lib").exists():
                shutil.copytree(jars, tree / "var" / "lib", symlinks=True)
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def measured(tree: Path, benches: str, times: tuple[int, ...]) -> Outcome:
    """Run the tree's `end_to_end`, of this package; its instance is stopped at the end."""
    _python(tree, "-c", RUN, benches, *map(str, times))
    return Outcome.read(tree / "var" / "bench" / "quick" / "measured" / "end_to_end.json")


def _python(tree: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], cwd=tree, env=environment(tree, os.environ), check=True)


def environment(tree: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The environment for a tree's own code, without this instance's settings."""
    kept = {name: value for name, value in given.items() if not name.startswith("SLUICE_")}
    path = os.pathsep.join([str(tree / "include"), str(tree)])
    return kept | {"PYTHONPATH": path, "SLUICE_ROOT": str(tree), "SLUICE_INSTANCE": INSTANCE}
