"""A chaos run on an instance of its own, from its start to its end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from sluice.cli import instance
from sluice.cli.demo.nights import compute
from sluice.cli.demo.steps import deploy
from sluice.cli.output.phases import Phases
from sluice.metrics import load_team
from sluice.runtime import days
from sluice.runtime.settings import Settings, get_settings
from sluice.stack import shutdown
from sluice.stack.airflow.rest_api import Airflow
from sluice_lab.chaos import file_systems
from sluice_lab.chaos.report import ChaosReport, markdown
from sluice_lab.chaos.run import ChaosPlan, run


def session(settings: Settings, plan: ChaosPlan, out: Path, *, keep: bool) -> ChaosReport:
    """Start the instance, run, write the report into the folder `out`, and print it.

    keep: leave the platform up. Else it ends at once, also if this is interrupted; its directory stays until
    the next run.
    """
    try:
        return _run(settings, plan, out)
    finally:
        if not keep:
            say(f"stopping the instance; its logs stay in {settings.home}")
            file_systems.wake(settings)
            shutdown.abandon(settings)
            file_systems.unmount(settings)


def _run(settings: Settings, plan: ChaosPlan, out: Path) -> ChaosReport:
    load_team()
    phases = Phases()
    with phases.phase("start the platform") as tell:
        instance.up(settings, lambda text: tell(text.strip()))
        get_settings.cache_clear()
        settings = get_settings()  # with the secrets that this made
    with phases.phase("deploy") as tell:
        deploy(settings, Airflow(settings), tell)

    def nights(_: Sequence[dt.date]) -> list[str]:
        return compute(settings, Airflow(settings), days.today(), lambda text: None).failures

    def kept(report: ChaosReport) -> None:
        path = report.write(out)
        say(f"\n{markdown(report)}\nwrote {path}")
        say(report.conclusion)

    say(f"seed {plan.seed}: {plan.faults} faults")
    return run(settings, plan, nights, say, kept)


def say(text: str) -> None:
    now = dt.datetime.now(dt.UTC).strftime("%H:%M:%S")
    print(text if text.startswith("\n") else f"{now} {text}", flush=True)
