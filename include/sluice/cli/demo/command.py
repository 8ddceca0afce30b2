"""`sluice demo`: run the whole platform on one log, and prove that its counts agree.

It starts from an empty directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from filelock import FileLock, Timeout

from sluice.cli.demo.counting import grouping_reports, wait_counted, whole_audit
from sluice.cli.demo.nights import compute
from sluice.cli.demo.problems import TOPIC, DemoError, NoLog
from sluice.cli.demo.steps import apply_tasks, clear, deploy, replay_log, start
from sluice.cli.phases import Phases, Say
from sluice.cli.report import MIB, Report, TaskReport, compare_task
from sluice.stack.memory import PeakMemory

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings

INSTANCE = "demo"
#: How many tasks are compared at a time: some wait for Hive while the results of another are decoded.
COMPARED_AT_ONCE = 3


def demo(
    logs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An access log in Apache's combined format, plain or .gz."),
    ] = None,
) -> None:
    """Run the whole platform on one log and prove that its counts agree.

    Deletes the instance `demo` and makes it again, starts every daemon, and applies the tasks of
    include/examples. Airflow then deploys Flume, the speed layer and the archiver. The log is written into
    two front-ends as web servers would write it. When every byte of it is counted, Airflow computes and
    reconciles each of its days. The demo ends with tables of what was counted and how tasks were grouped;
    var/demo/report.json has the same. The platform stays up; `sluice down` stops it.

    Examples:
      sluice demo                           a log that is generated, the same each time
      sluice demo --logs access.log.gz      your own
      make demo LOGS=access.log.gz          the same, setting everything up first

    Exit code 1 if a line is lost or a single result differs between the layers.
    """
    os.environ["SLUICE_INSTANCE"] = INSTANCE
    from sluice.runtime.settings import get_settings

    get_settings.cache_clear()
    settings = get_settings()
    log = usable(logs)
    phases = Phases()
    with alone(settings), PeakMemory(settings) as memory:
        report = run(settings, log, phases, memory)
    path = settings.home / "report.json"
    report.write(path)
    typer.echo("\n" + report.text())
    typer.echo(closing(settings, report, path))
    raise typer.Exit(0 if report.agrees else 1)


@contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Refuse a second demo at the same time: each would delete the other's instance."""
    path = settings.home.with_name(f"{settings.home.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=0):
            yield
    except Timeout:
        raise DemoError("another demo is running: wait for its end, or end it") from None


def usable(logs: Path | None) -> Path | None:
    """The log to replay; None if one is to be generated."""
    if logs is None:
        return None
    if not logs.is_file():
        raise NoLog(f"LOGS={logs}: there is no such file")
    if not logs.stat().st_size:
        raise NoLog(f"LOGS={logs}: the file is empty")
    return logs.resolve()


def run(settings: Settings, log: Path | None, phases: Phases, memory: PeakMemory) -> Report:
    """All phases, in order."""
    from sluice.stack.airflow_api import Airflow

    with phases.phase("clear the old demo") as say:
        clear(settings, say)
    with phases.phase("start the stack") as say:
        settings = start(settings, say)
    with phases.phase("apply the tasks") as say:
        apply_tasks(settings, say)
    airflow = Airflow(settings)
    with phases.phase("deploy") as say:
        deploy(settings, airflow, say)
    with phases.phase("replay the log") as say:
        replay_log(settings, log, say)
    with phases.phase("count online and archive") as say:
        hops = wait_counted(settings, say)
    with phases.phase("compute and reconcile") as say:
        failures = compute(settings, airflow, say)
    with phases.phase("compare") as say:
        hops = whole_audit(settings)
        tasks = compare(settings, say)
    return Report(
        hops=hops,
        tasks=tasks,
        failures=failures,
        grouping=grouping_reports(settings),
        seconds=phases.seconds,
        peak_memory_bytes=memory.peak_bytes,
        urls=urls(settings),
        login={"user": settings.airflow.user, "password_file": str(password_file(settings))},
    )


def compare(settings: Settings, say: Say) -> list[TaskReport]:
    """Each task's results of both layers, side by side."""
    from sluice.storage.postgres import engine
    from sluice.tasks.store import TaskStore

    tasks = TaskStore(engine(settings)).list(TOPIC)
    with ThreadPoolExecutor(COMPARED_AT_ONCE) as pool:
        found = list(pool.map(lambda task: compare_task(settings, task.name, task.error), tasks))
    say(f"{sum(task.results for task in found):,} results")
    return found


def urls(settings: Settings) -> dict[str, str]:
    return {
        "airflow": settings.airflow.url,
        "data_docs": (settings.home / "data_docs" / "index.html").as_uri(),
        "hdfs": settings.hdfs.webhdfs,
        "hbase": f"http://{settings.bind_host}:{settings.port('hbase_master_http')}",
    }


def password_file(settings: Settings) -> Path:
    return settings.home / "secrets" / "airflow_admin"


def closing(settings: Settings, report: Report, path: Path) -> str:
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
        f"The platform stays up: try `sluice results {report.tasks[0].name if report.tasks else 'TASK'}`; "
        "`sluice down` stops it.",
        "AGREES: online and offline results are the same." if report.agrees else "DOES NOT AGREE: see above.",
    ]
    return "\n".join(lines)
