"""Run the tests: ``python -m tests``, as ``make test`` does; ``... long``: the long ones; ``... all``: both.

The code is linted and the browser set up; then the tests that need no daemon run, several files at a time.
The platform comes up for the tests that use it, two files at a time, and for those that kill parts of it, one
after the other. No part runs beside another: on two cores that took a fourth longer, and what a test may
wait for passed. If a few tests failed, they run once more by themselves, and the last lines name those that
passed then. Each part says how long it took. Exits with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sluice.stack import supervisord
from tests.bring_up import instance_settings
from tests.marked import having

#: More than a small machine has cores, because many of these tests wait.
PROCESSES = max(3, os.cpu_count() or 1)
#: By files, because what a module sets up, such as an SQL endpoint, takes longer than most of its tests.
BY_FILES = ("--dist", "loadfile", "--no-loadscope-reorder")
LINT = ("make", "--no-print-directory", "lint")
BROWSER = (sys.executable, "-m", "sluice_lab.browser.tools")
#: What `-m` says for each choice; both at once need one platform, and fill the cores better.
CHOICES = {"short": "not long", "long": "long", "all": ""}
SLOWEST = ("-v", "--durations=15")
TESTS_FAILED = 1  # pytest's exit code; all others but 0 say that it could not run them
#: If more tests failed, it is not chance, and none runs again.
AGAIN_AT_MOST = 5


@dataclass(frozen=True)
class Part:
    """Some of the tests, with a memory of their own for which failed."""

    name: str
    marks: str
    options: tuple[str, ...]
    of: str = ""  # the mark of all its tests: only files that have such tests are imported

    def command(self, *options: str) -> list[str]:
        memory = ("-o", f"cache_dir={self.memory}")
        files = map(str, having(self.of, Path("tests"))) if self.of else ()
        return [sys.executable, "-m", "pytest", *memory, "-m", self.marks, *options, *files]

    @property
    def memory(self) -> Path:
        return Path(".pytest_cache") / self.name

    def failed(self) -> list[str]:
        """The tests that failed when the part ran last."""
        found = self.memory / "v/cache/lastfailed"
        return sorted(json.loads(found.read_text())) if found.exists() else []


class Parts(NamedTuple):
    """All that one command runs."""

    alone: Part
    on_the_stack: Part
    killing: Part


def parts(choice: str) -> Parts:
    """The parts of one of CHOICES."""
    which = f" and {CHOICES[choice]}" if CHOICES[choice] else ""
    alone = ("-q", "--durations=15", "-n", f"{PROCESSES}", *BY_FILES)
    return Parts(
        Part("alone", f"not stack and not e2e and not containers{which}", alone),
        Part("stack", f"stack and not e2e{which}", (*SLOWEST, "-n", "2", *BY_FILES), of="stack"),
        Part("killing", f"e2e{which}", SLOWEST, of="e2e"),
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "choice",
        nargs="?",
        choices=list(CHOICES),
        default="short",
        help="by the mark `long`; default: without it",
    )
    chosen = parts(parser.parse_args(arguments).choice)
    end_on_sigterm()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes import the same modules
    settings = instance_settings()
    ours = not supervisord.running(settings)
    try:
        with took("To begin"), subprocess.Popen(LINT) as lint, subprocess.Popen(BROWSER) as browser:
            pass  # both end first
        if lint.returncode or browser.returncode:
            return 1
        for part in chosen:
            shutil.rmtree(part.memory, ignore_errors=True)
        codes = {chosen.alone: pytest(chosen.alone, *chosen.alone.options)}
        with took("To bring the platform up"):
            up = bring_up()
        if up:
            return 1
        for part in (chosen.on_the_stack, chosen.killing):
            codes[part] = pytest(part, *part.options)
        return judge(codes, bring_up)
    finally:
        if ours:
            take_down()


def bring_up() -> int:
    """Bring the platform up, or repair it; the exit code."""
    return subprocess.run([sys.executable, "-m", "tests.bring_up"], check=False).returncode


def take_down() -> None:
    """Stop the platform, if it runs.

    In a process of its own, because that enters the platform's network, and it comes up from outside.
    """
    subprocess.run([sys.executable, "-m", "tests.take_down"], check=True)


@contextmanager
def took(what: str) -> Iterator[None]:
    """Say how long it took."""
    begun = time.monotonic()
    yield
    say(f"{what} took {time.monotonic() - begun:.0f} s.")


def end_on_sigterm() -> None:
    """From now on, SIGTERM ends this process only after what it has begun."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def pytest(part: Part, *options: str) -> int:
    """Run these tests; pytest's exit code. If this process is to end, they end first, with their fixtures."""
    with took(f"The part {part.name!r}"), subprocess.Popen(part.command(*options)) as running:
        try:
            return running.wait()
        except SystemExit:
            running.send_signal(signal.SIGINT)
            running.wait()
            raise


def judge(codes: Mapping[Part, int], repair: Callable[[], int]) -> int:
    """1 if a part failed, and failed again; the tests that passed the second time are named.

    repair: mends the platform, which tests that failed may have left broken; it returns an exit code.
    """
    chance: list[str] = []
    for part, code in codes.items():
        failed = part.failed()
        if code and not (code == TESTS_FAILED and 0 < len(failed) <= AGAIN_AT_MOST):
            return 1
        if code:
            say("Once more, by themselves:\n  " + "\n  ".join(failed))
            if (part.of and repair()) or pytest(part, "-v", "--last-failed"):
                return 1
            chance += failed
    for name in chance:
        say(f"FLAKY: {name} failed, and passed when it ran again")
    return 0


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
