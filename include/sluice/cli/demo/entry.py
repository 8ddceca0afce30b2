"""`sluice demo`: run the whole platform on one log, and prove that its counts agree.

It starts from an empty directory. This module imports nothing that starts threads, because a process with
threads cannot enter the instance's network.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.demo.problems import MOST_HOSTS, DemoError, NoLog
from sluice.cli.demo.steps import clear
from sluice.cli.output.phases import Phases
from sluice.runtime.one_at_a_time import one_at_a_time

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings
    from sluice_hosts.commands.demo_hosts import Layout

INSTANCE = "demo"


def demo(
    logs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An access log in Apache's combined format, plain or packed."),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="N", help=f"Run agents on N emulated hosts, 1 to {MOST_HOSTS}, and move one."),
    ] = None,
) -> None:
    """Run the whole platform on one log and prove that its counts agree.

    Deletes the instance `demo` and makes it again, starts every daemon, and applies the tasks of
    include/examples. Airflow then deploys Flume, the speed layer and the archiver. The log is written into
    two front-ends as web servers would write it. When every byte of it is counted, Airflow computes and
    reconciles each of its days that is over (UTC). The demo ends with tables of what was counted and how
    tasks were grouped; var/demo/report.json has the same. The platform stays up; `sluice down` stops it.

    With --hosts the agents run on emulated hosts: SSH servers on addresses of this machine, each with a home
    of its own. One collector moves to another host while the log is written. Platform and hosts end with the
    demo; on a terminal they wait for Enter.

    Examples:
      sluice demo                           a log that is generated, the same each time
      sluice demo --logs access.log.gz      your own
      sluice demo --hosts 3                 over three hosts
      make demo LOGS=access.log.gz HOSTS=3  both, setting everything up first

    Exit code 1 if a line is lost, if a single result differs between the layers, or if no day is over.
    """
    os.environ["SLUICE_INSTANCE"] = INSTANCE
    from sluice.runtime.settings import get_settings
    from sluice.stack.networking import network

    get_settings.cache_clear()
    settings = get_settings()
    network.require_outside()
    log, wanted = usable(logs), layout_of(hosts)
    phases = Phases()
    with alone(settings):
        with phases.phase("clear the old demo") as say:
            clear(settings, say)
            network.open_and_enter(settings, say)
        from sluice.cli.demo.command import demonstrate  # after the network: its imports start threads
        from sluice.metrics import load_team

        load_team()

        raise typer.Exit(0 if demonstrate(settings, log, phases, wanted) else 1)


def layout_of(hosts: str | None) -> Layout | None:
    """Which emulated host runs what; None if all runs on this machine. Raises NoHosts."""
    if hosts is None:
        return None
    from sluice_hosts.commands.demo_hosts import layout

    return layout(hosts)


def alone(settings: Settings) -> AbstractContextManager[None]:
    """Refuse a second demo at the same time: each would delete the other's instance."""
    return one_at_a_time(settings.home, DemoError("another demo is running: wait for its end, or end it"))


def usable(logs: Path | None) -> Path | None:
    """The log to replay; None if one is to be generated."""
    if logs is None:
        return None
    if not logs.is_file():
        raise NoLog(f"LOGS={logs}: there is no such file")
    if not logs.stat().st_size:
        raise NoLog(f"LOGS={logs}: the file is empty")
    return logs.resolve()
