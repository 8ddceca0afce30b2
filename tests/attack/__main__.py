"""Attack a running platform as each caller: ``python -m tests.attack --help``."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence

import tests.inside  # noqa: F401 (enters the network)
from sluice.stack import supervisord
from sluice.stack.environment import environment
from sluice.stack.networking import network
from tests.bring_up import instance_settings, take_down, variables

PARTS = ("routes", "statements", "records")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    chosen = instance_settings()
    ours = not supervisord.running(chosen)
    if ours and subprocess.run([sys.executable, "-m", "tests.bring_up"], check=False).returncode:
        return 1
    try:
        network.enter(chosen)
        os.environ.update(variables(chosen))
        os.environ.update(environment(instance_settings()))
        for chatty in ("pyhive", "kafka"):  # they write each statement, and each broker that ended
            logging.getLogger(chatty).setLevel(logging.CRITICAL)
        return 1 if sum(part(name) for name in options.parts or PARTS) else 0
    finally:
        if ours:
            take_down(chosen)


def part(name: str) -> int:
    """Run one part and print what came of it; returns the number of holes."""
    began = time.monotonic()
    outcome = importlib.import_module(f"tests.attack.{name}").run(instance_settings())
    sys.stdout.write(f"{outcome.text()}\n{time.monotonic() - began:.0f} s\n\n")
    sys.stdout.flush()
    return len(outcome.holes)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tests.attack",
        description="Attacks the tests' instance (SLUICE_TEST_INSTANCE; brought up if it does not run): "
        "every route of Airflow and Sluice by every method and caller, hostile statements and settings at "
        "the SQL endpoint, hostile records in Kafka. Prints figures and exits with 1 if something was not "
        "refused.",
    )
    made.add_argument("parts", nargs="*", metavar="PART", choices=[*PARTS, []], help=", ".join(PARTS))
    return made


if __name__ == "__main__":
    sys.exit(main())
