"""What `sluice demo` does, from an empty instance to the verdict."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sluice.cli.demo.counting import grouping_reports, wait_counted, whole_audit
from sluice.cli.demo.dashboard import make_dashboard
from sluice.cli.demo.nights import compute
from sluice.cli.demo.problems import TOPIC
from sluice.cli.demo.report import MIB, DemoReport, TaskReport
from sluice.cli.demo.steps import apply_tasks, deploy, replay_log, start
from sluice.cli.output.phases import Phases, Say
from sluice.runtime import days
from sluice.stack.memory import PeakMemory

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings
    from sluice_hosts.commands.demo_hosts import Layout

#: How many tasks are compared at a time: some wait for Hive while the results of another are decoded.
COMPARED_AT_ONCE = 3


def demonstrate(settings: Settings, log: Path | None, phases: Phases, layout: Layout | None = None) -> bool:
    """Run the demo in an empty instance and print what came of it; returns whether the layers agree.

    layout: of the hosts on which the agents run; None: all runs on this machine.
    """
    with _hosts(settings, layout, phases):
        with PeakMemory(settings) as memory:
            report = run(settings, log, phases, memory, layout)
        path = settings.home / "report.json"
        report.write(path)
        typer.echo("\n" + report.text())
        typer.echo(closing(settings, report, path))
        if layout and waits_for_enter():
            input()
    return report.agrees


@contextmanager
def _hosts(settings: Settings, layout: Layout | None, phases: Phases) -> Iterator[None]:
    """The hosts of the layout, while the demo runs."""
    if layout is None:
        yield
        return
    from sluice_hosts.commands import demo_hosts

    with demo_hosts.running(settings, layout, phases):
        yield


def waits_for_enter() -> bool:
    """Whether a person is there, who may want to look at what runs before it ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def run(
    settings: Settings, log: Path | None, phases: Phases, memory: PeakMemory, layout: Layout | None
) -> DemoReport:
    """All phases, in order."""
    with phases.phase("start the stack") as say:
        settings = start(settings, say)
    return prove(settings, log, phases, memory, layout)


def prove(
    settings: Settings, log: Path | None, phases: Phases, memory: PeakMemory, layout: Layout | None = None
) -> DemoReport:
    """All phases after the start: count a log in a platform that runs, and compare both layers."""
    from sluice.stack.airflow.rest_api import Airflow

    with phases.phase("apply the tasks") as say:
        apply_tasks(settings, say)
        make_dashboard(settings)
    airflow = Airflow(settings)
    with phases.phase("deploy") as say:
        deploy(settings, airflow, say)
    move = None
    if layout:
        from sluice_hosts.commands.demo_move import replay_and_move

        with phases.phase("replay the log and move") as say:
            move = replay_and_move(settings, log, layout, say)
    else:
        with phases.phase("replay the log") as say:
            replay_log(settings, log, say)
    with phases.phase("count online and archive") as say:
        hops = wait_counted(settings, say)
    with phases.phase("compute and reconcile") as say:
        today = days.today()
        nights = compute(settings, airflow, today, say)
    with phases.phase("compare") as say:
        hops = whole_audit(settings, today)
        tasks = compare(settings, nights.to_come, say)
    return DemoReport(
        hops=hops,
        tasks=tasks,
        failures=nights.failures,
        computed=nights.computed,
        to_come=nights.to_come,
        grouping=grouping_reports(settings),
        seconds=phases.seconds,
        peak_memory_bytes=memory.peak_bytes,
        urls=urls(settings),
        move=move,
        login={"user": settings.airflow.user, "password_file": str(password_file(settings))},
    )


def compare(settings: Settings, left_out: Collection[date], say: Say) -> list[TaskReport]:
    """Each task's results of both layers, side by side, of periods that touch no day of `left_out`."""
    from sluice.cli.demo.task_report import compare_task
    from sluice.storage.postgres import engine
    from sluice.tasks.store import TaskStore

    tasks = TaskStore(engine(settings)).list(TOPIC)
    with ThreadPoolExecutor(COMPARED_AT_ONCE) as pool:
        found = list(pool.map(lambda task: compare_task(settings, task.name, task.error, left_out), tasks))
    say(f"{sum(task.results for task in found):,} results")
    return found


def urls(settings: Settings) -> dict[str, str]:
    """The pages that a browser of this machine can open."""
    pages = {
        "airflow": settings.airflow.url,
        "data_docs": (settings.home / "data_docs" / "index.html").as_uri(),
    }
    if not settings.private:
        pages["hdfs"] = settings.hdfs.webhdfs
        pages["hbase"] = f"http://{settings.host('hbase')}:{settings.port('hbase_master_http')}"
    return pages


def password_file(settings: Settings) -> Path:
    return settings.home / "secrets" / "airflow_admin"


def closing(settings: Settings, report: DemoReport, path: Path) -> str:
    """What to do next, and the verdict."""
    password = password_file(settings)
    shown = sys.stdout.isatty() and password.exists()  # never into a log
    lines = [
        f"Airflow    {report.urls['airflow']}  (user {report.login['user']}, password "
        f"{password.read_text().strip() if shown else 'in ' + str(password)})",
        f"Data Docs  {report.urls['data_docs']}",
        f"report     {path.relative_to(settings.root)}",
        f"{sum(report.seconds.values()):.0f} s, at most {report.peak_memory_bytes / MIB:,.0f} MiB of memory "
        "(PSS of all processes)",
        fate(report),
        report.verdict,
    ]
    return "\n".join(lines)


def fate(report: DemoReport) -> str:
    """What becomes of the platform now."""
    task = report.tasks[0].name if report.tasks else "TASK"
    if report.move is None:
        return f"The platform stays up: try `sluice results {task}`; `sluice down` stops it."
    if waits_for_enter():
        return f"The platform and its hosts run until you press Enter: try `sluice results {task}` elsewhere."
    return "The platform and its hosts end now."
