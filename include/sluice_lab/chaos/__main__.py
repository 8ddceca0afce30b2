"""A chaos run, as `sluice lab chaos` starts it: ``python -m sluice_lab.chaos --help``.

It is a process of its own, because it must enter the instance's network before anything starts a thread.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from sluice.cli.errors import explain
from sluice.runtime.settings import get_settings
from sluice.stack.networking import network
from sluice_lab.chaos import file_systems
from sluice_lab.chaos.draws import LONG, OF_DISK, USUAL, FaultKind
from sluice_lab.chaos.own_instance import INSTANCE, alone, begin

INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0 if the platform recovered from each fault and every line counted once, else 1."""
    options = parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    os.environ["SLUICE_INSTANCE"] = INSTANCE
    get_settings.cache_clear()
    settings = get_settings()
    network.require_outside()
    with alone(settings):
        begin(settings)
        kinds = tuple(FaultKind(kind) for kind in options.kinds.split(","))
        if not OF_DISK.isdisjoint(kinds) and not file_systems.why_none(settings):
            file_systems.mount(settings)
        network.open_and_enter(settings, lambda text: print(text, flush=True))
        from sluice_lab.chaos.run import ChaosPlan  # after the network: these imports start threads
        from sluice_lab.chaos.session import session

        plan = ChaosPlan(
            faults=options.faults,
            seed=options.seed,
            kinds=kinds,
            longest=LONG if options.long else USUAL,
            rate=options.rate,
            without=frozenset(pair(text) for text in options.without),
        )
        return 0 if session(settings, plan, options.out, keep=options.keep).ok else 1


def pair(text: str) -> tuple[FaultKind, str]:
    """KIND:PART as a pair. Raises ValueError."""
    kind, _, part = text.partition(":")
    return FaultKind(kind), part


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m sluice_lab.chaos", description="See `sluice lab chaos`.")
    made.add_argument("--faults", type=int, required=True)
    made.add_argument("--seed", type=int, required=True)
    made.add_argument("--kinds", default=",".join(FaultKind), help="separated by commas")
    made.add_argument("--without", action="append", default=[], metavar="KIND:PART")
    made.add_argument("--rate", type=float, default=60.0, help="lines a second")
    made.add_argument("--out", type=Path, required=True, help="the folder of the report")
    made.add_argument("--long", action="store_true", help="faults that last longer")
    made.add_argument("--keep", action="store_true", help="leave the platform up")
    return made


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        if os.environ.get("SLUICE_DEBUG") or (explained := explain(error)) is None:
            raise
        sys.stderr.write(f"sluice: {explained.message}\n")
        sys.exit(explained.code)
