"""Run lint and the quick tests, which is what ``make fast`` runs: ``python -m tests.fast``.

As many processes as there are cores share the files, and each imports only its own. With pytest-xdist each
would import all of them, and a test would cost 2 to 4 ms more. What the first process says is seen as it
comes; what the others and lint say follows. Exits with 1 if anything failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.__main__ import LINT
from tests.marked import refused, whole

MARKS = "not stack and not e2e and not slow and not containers"


def quick(tests: Path) -> list[Path]:
    """The files of which some test may be quick."""
    return [path for path in sorted(tests.rglob("test_*.py")) if not whole(path) & refused(MARKS)]


def shares(files: Sequence[Path], processes: int) -> list[Sequence[Path]]:
    """The files of each process: in turn, because the files of a package take about as long as each other."""
    return [files[number::processes] for number in range(min(processes, len(files)))]


def command(number: int, files: Sequence[Path]) -> list[str]:
    memory = ("-o", f"cache_dir=.pytest_cache/fast{number}")
    chosen = ("--hypothesis-profile", "quick", "-m", MARKS)
    return [sys.executable, "-m", "pytest", "-q", *memory, *chosen, *map(str, files)]


def side_by_side(first: Sequence[str], *others: Sequence[str]) -> int:
    """Run them at the same time; 1 if one failed. What the others say is shown when the first has ended."""
    with ExitStack() as ends:
        said = [ends.enter_context(tempfile.TemporaryFile("w+")) for _ in others]
        running = [
            ends.enter_context(subprocess.Popen(other, stdout=out, stderr=subprocess.STDOUT))
            for other, out in zip(others, said, strict=True)
        ]
        codes = [subprocess.run(first, check=False).returncode]
        for process, out in zip(running, said, strict=True):
            codes.append(process.wait())
            out.seek(0)
            print(out.read(), end="", flush=True)
    return int(any(codes))


def main() -> int:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of files are imported each time
    dealt = shares(quick(Path("tests")), os.cpu_count() or 1)
    first, *others = (command(number, files) for number, files in enumerate(dealt))
    return side_by_side(first, *others, LINT)


if __name__ == "__main__":
    sys.exit(main())
