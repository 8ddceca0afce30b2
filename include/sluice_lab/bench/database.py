"""A few daemons of one's own, with the platform's binaries and configuration."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sluice.runtime.settings import Settings, make_secret
from sluice.stack.daemon import Daemon, Unhealthy
from sluice.stack.daemons.postgres import POSTGRES
from sluice.stack.secrets import POSTGRES as POSTGRES_SECRETS
from sluice_lab.bench.databases import admit
from sluice_lab.ports import port_base

START_SECONDS = 60.0


@contextmanager
def server(name: str, daemons: Sequence[Daemon] = (POSTGRES,)) -> Iterator[Settings]:
    """The settings of an instance in which only these daemons run; it is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        home = Path(folder)
        for secret in ("identity", *POSTGRES_SECRETS):
            make_secret(home, secret)
        settings = Settings(instance=name, home=home, port_base=port_base(), network="host")
        for daemon in daemons:
            stack.enter_context(_running(settings, daemon))
        yield settings


@contextmanager
def _running(settings: Settings, daemon: Daemon) -> Iterator[None]:
    for step in daemon.prepare:
        step(settings)
    if daemon is POSTGRES:
        admit(settings)
    command = daemon.command(settings)
    environment = {**os.environ, **command.env}
    with (settings.home / f"{daemon.name}.log").open("wb") as log:
        process = subprocess.Popen(command.argv, env=environment, stdout=log, stderr=log)
    try:
        _wait(daemon, settings)
        yield
    finally:
        process.send_signal(signal.Signals[f"SIG{daemon.stop_signal}"])
        process.wait(START_SECONDS)


def _wait(daemon: Daemon, settings: Settings) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            daemon.health(settings)
        except Unhealthy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
