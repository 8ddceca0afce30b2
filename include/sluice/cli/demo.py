"""`sluice demo`: the whole platform on one log, from an empty directory to counts proved to agree."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.phases import Phases, Say
from sluice.cli.report import MIB, Report, compare_task
from sluice.stack.memory import PeakMemory

if TYPE_CHECKING:
    from sluice.quality.audit import Hops
    from sluice.runtime.settings import Settings
    from sluice.speed.routed.report import GroupingReport
    from sluice.stack.airflow_api import Airflow, Run

INSTANCE = "demo"
TOPIC = "logs"
#: Taken when no log is named and it lies beside the checkout.
SAMPLE = Path("..", "shared", "data", "apache_combined_10k.log.gz")
GENERATED_LINES = 10_000
#: What the demo counts: between them they use every metric, extraction and filter.
EXAMPLES = Path("include", "examples")
TASKS, LISTS = "twelve_tasks.yaml", "lists.yaml"

#: The log is written in so long, or as fast as it goes: there must be several batches, for a plan is made
#: between them.
REPLAY_SECONDS = 10.0

FOR_EVER = ("collection", "speed_layer", "archive")
DEPLOY_SECONDS = 240.0
#: So long nothing may move before the demo gives up; a large log may well take longer than that in all.
STILL_SECONDS = 180.0
BACKFILL_SECONDS = 3600.0
LOOK_SECONDS = 5.0
#: Tasks whose results are compared at a time: while some wait for Hive the results of another are decoded.
COMPARED_AT_ONCE = 3
POLL_SECONDS = 1.0


class DemoError(RuntimeError):
    """The demo cannot go on; says what to look at."""


class NoLog(ValueError):
    """The log that was named cannot be used."""


def demo(
    logs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An access log in Apache's combined format, plain or .gz."),
    ] = None,
) -> None:
    """Run the whole platform on one log and prove that its counts agree.

    Makes the instance `demo` anew (what it held before is deleted), starts every daemon, applies the tasks of
    include/examples, lets Airflow deploy Flume, the speed layer and the archiver, writes the log into two
    front-ends as web servers would, waits until every byte of it was counted, lets Airflow compute and
    reconcile each of its days, and ends with tables of what was counted and how lines were grouped, and with
    the same in var/demo/report.json. The platform stays up; `sluice down` stops it.

    Examples:
      sluice demo                           a sample log, or a generated one
      sluice demo --logs access.log.gz      your own
      make demo LOGS=access.log.gz          the same, setting everything up first

    Exit code 1 if a line is lost or a single result differs between the layers.
    """
    os.environ["SLUICE_INSTANCE"] = INSTANCE
    from sluice.runtime.settings import get_settings

    get_settings.cache_clear()
    settings = get_settings()
    log = usable(logs, settings.root)
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
    """Two demos at once would delete each other's instance: the second is refused."""
    path = settings.home.with_name(f"{settings.home.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError("another demo is at work: wait for its end, or end it") from None
        yield


def usable(logs: Path | None, root: Path) -> Path | None:
    """The log to replay; None if one is to be generated."""
    if logs is None:
        sample = root / SAMPLE
        return sample if sample.exists() else None
    if not logs.is_file():
        raise NoLog(f"LOGS={logs}: there is no such file")
    if not logs.stat().st_size:
        raise NoLog(f"LOGS={logs}: the file is empty")
    return logs.resolve()


def run(settings: Settings, log: Path | None, phases: Phases, memory: PeakMemory) -> Report:
    """All phases, in order."""
    from sluice.stack.airflow_api import Airflow
    from sluice.tasks.store import TaskStore

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
        from sluice.storage.postgres import engine

        found = TaskStore(engine(settings)).list(TOPIC)
        with ThreadPoolExecutor(COMPARED_AT_ONCE) as pool:
            tasks = list(pool.map(lambda task: compare_task(settings, task.name, task.error), found))
        say(f"{sum(t.results for t in tasks):,} results")
    return Report(
        hops=hops,
        tasks=tasks,
        failures=failures,
        grouping=groupings(settings),
        seconds=phases.seconds,
        peak_memory_bytes=memory.peak_bytes,
        urls=urls(settings),
        login={"user": settings.airflow.user, "password_file": str(password_file(settings))},
    )


def clear(settings: Settings, say: Say) -> None:
    """Kill what runs of the former demo and delete its directory; the jars of all instances stay."""
    from sluice.stack import shutdown

    if not settings.home.exists():
        say("there was none")
        return
    shutdown.abandon(settings)
    shutil.rmtree(settings.home)
    say(f"deleted {settings.home.relative_to(settings.root)}")


def start(settings: Settings, say: Say) -> Settings:
    """Bring every daemon up; the settings with the secrets that this made."""
    from sluice.cli import instance
    from sluice.runtime.settings import get_settings

    instance.up(settings, lambda text: say(text.strip()))
    (settings.root / "var" / "current").write_text(settings.instance)
    get_settings.cache_clear()
    say("all daemons are healthy")
    return get_settings()


def apply_tasks(settings: Settings, say: Say) -> None:
    """The example tasks, with the value lists that they need, beside those that a new platform has."""
    from sluice.storage.postgres import engine
    from sluice.tasks import parse_tasks
    from sluice.tasks.lists import ValueLists, parse_lists
    from sluice.tasks.store import TaskStore

    directory, user = settings.root / EXAMPLES, "sluice demo"
    lists = parse_lists((directory / LISTS).read_text())
    specs = parse_tasks((directory / TASKS).read_text())
    ValueLists(engine(settings)).apply_all(lists, user)
    store = TaskStore(engine(settings))
    store.apply(specs, user)
    tasks = store.list()
    metrics = {name for task in tasks for name in task.spec.metrics}
    say(f"{len(tasks)} tasks, {len(metrics)} metrics, {len(lists)} value lists")


def deploy(settings: Settings, airflow: Airflow, say: Say) -> None:
    """Wait until Airflow runs the three DAGs that run for ever, and what they start answers."""
    deadline = time.monotonic() + DEPLOY_SECONDS
    while left := not_deployed(settings, airflow):
        if time.monotonic() > deadline:
            raise DemoError(
                f"{', '.join(left)} did not start within {DEPLOY_SECONDS:.0f} s: {look(settings)}"
            )
        say(f"waiting for {', '.join(left)}")
        time.sleep(POLL_SECONDS)
    say(f"{', '.join(FOR_EVER)} are running")


def not_deployed(settings: Settings, airflow: Airflow) -> list[str]:
    from sluice.collection import deploy as collection
    from sluice.stack.jobs import position

    waiting = [f"DAG {dag}" for dag in FOR_EVER if not any(r.state == "running" for r in airflow.runs(dag))]
    if not collection.agents(settings) or not collection.drained(settings):
        waiting.append("Flume's agents")
    return waiting + [job for job in ("speed_layer", "archiver") if position(settings, job) is None]


def replay_log(settings: Settings, log: Path | None, say: Say) -> None:
    from sluice.traffic import generate, replay

    if log is None:
        log = settings.home / "tmp" / "generated.log"
        generate.write(log, GENERATED_LINES)
    rate = sum(1 for _ in replay.read_lines(log)) / REPLAY_SECONDS
    done = replay.replay(settings, log, rate or None, progress=lambda lines, size: say(f"{lines:,} lines"))
    say(f"{done.lines:,} lines, {done.bytes:,} bytes, in {done.files} files")


def wait_counted(settings: Settings, say: Say) -> Hops:
    """Wait until the ledger has every byte of the files and the archive has passed Kafka's end."""
    from sluice.quality.audit import audit

    def look_now() -> tuple[bool, str, Hops]:
        hops = audit(settings, TOPIC, hive=False)
        waiting = [w for w in hops.in_flight if "nightly_batch" not in w]
        text = f"{hops.online:,} of {hops.lines_read:,} counted, {hops.archived:,} of {hops.kafka:,} archived"
        return not waiting and hops.ok, text, hops

    return until_still(look_now, say, settings)


def groupings(settings: Settings) -> list[GroupingReport]:
    """What the speed layer says of its grouping, of each task; nothing if it was started anew since."""
    from sluice.speed.progress import progress_path
    from sluice.speed.routed.report import NothingCounted, reports

    with suppress(NothingCounted):
        return reports(progress_path(settings))
    return []


def whole_audit(settings: Settings) -> Hops:
    """The final hops, with Hive; read again if they do not agree: they are not read at one instant."""
    from sluice.quality.audit import audit

    hops = audit(settings, TOPIC)
    for _ in range(2):
        if hops.ok and not hops.in_flight:
            break
        time.sleep(POLL_SECONDS)
        hops = audit(settings, TOPIC)
    return hops


def until_still(look_now: Callable[[], tuple[bool, str, Hops]], say: Say, settings: Settings) -> Hops:
    """Look until it is done, or nothing has moved for too long: the final audit then says what is amiss."""
    moved, before = time.monotonic(), ""
    while True:
        done, text, hops = look_now()
        say(text)
        if done:
            return hops
        if text != before:
            moved, before = time.monotonic(), text
        elif time.monotonic() - moved > STILL_SECONDS:
            say(f"{text}; nothing moved for {STILL_SECONDS:.0f} s: {look(settings)}")
            return hops
        time.sleep(POLL_SECONDS)


def compute(settings: Settings, airflow: Airflow, say: Say) -> list[str]:
    """Backfill nightly_batch over the days of the log's lines, wait for their reconciliation; what failed."""
    from sluice.storage.days import Days
    from sluice.storage.postgres import engine

    days = event_days(settings)
    if not days:
        return ["no line of the log has an event time: see the table dead_letters"]
    book = Days(engine(settings), TOPIC)

    def progress() -> None:
        entries = [entry for entry in map(book.get, days) if entry]
        published = sum(entry.published_cut == entry.cut for entry in entries)
        say(f"{len(entries)} of {len(days)} days computed, {published} reconciled and published")

    batches: list[Run] = []
    for first, last in stretches(days):
        number = airflow.backfill("nightly_batch", first, last)
        batches += patiently(partial(airflow.wait_backfill, number), progress)
    done = [run for run in batches if run.state == "success"]
    reconciled = patiently(partial(airflow.wait_downstream, "reconcile", done), progress)
    progress()
    failures = [f"{r.dag} {r.id}: {r.state}" for r in [*batches, *reconciled] if r.state != "success"]
    for day in days:
        entry = book.get(day)
        if entry is None or entry.published_cut != entry.cut:
            failures.append(f"{day} was not published: see the runs of reconcile, and the Data Docs")
    return failures


def patiently(wait: Callable[[float], list[Run]], progress: Callable[[], None]) -> list[Run]:
    """Wait for Airflow's runs, showing progress meanwhile."""
    from sluice.stack.airflow_api import AirflowTimeout

    deadline = time.monotonic() + BACKFILL_SECONDS
    while True:
        progress()
        try:
            return wait(LOOK_SECONDS)
        except AirflowTimeout:
            if time.monotonic() > deadline:
                raise


def event_days(settings: Settings) -> list[date]:
    """The days (UTC) on which the log's lines say that they happened."""
    import sqlalchemy as sa

    from sluice.storage.postgres import engine
    from sluice.storage.schema import event_days as table

    with engine(settings).connect() as connection:
        query = sa.select(table.c.day).where(table.c.topic == TOPIC).distinct().order_by(table.c.day)
        return list(connection.execute(query).scalars())


def stretches(days: list[date], longest: int = 50) -> list[tuple[date, date]]:
    """Sorted days as stretches (first, last) without a gap: a backfill runs for *each* day of its range.

    None is longer than Airflow's API shows runs on a page.
    """
    found: list[tuple[date, date]] = []
    for day in days:
        if found and day - found[-1][1] == timedelta(days=1) and (day - found[-1][0]).days < longest:
            found[-1] = (found[-1][0], day)
        else:
            found.append((day, day))
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


def look(settings: Settings) -> str:
    return f"see `sluice status`, and Airflow at {settings.airflow.url}"


def closing(settings: Settings, report: Report, path: Path) -> str:
    """What to do next, and the verdict."""
    password = password_file(settings)
    lines = [
        f"Airflow    {report.urls['airflow']}  (user {report.login['user']}, password "
        f"{password.read_text().strip() if password.exists() else 'in ' + str(password)})",
        f"Data Docs  {report.urls['data_docs']}",
        f"report     {path.relative_to(settings.root)}",
        f"{sum(report.seconds.values()):.0f} s, at most {report.peak_memory_bytes / MIB:,.0f} MiB of memory "
        "(PSS of all processes)",
        f"The platform stays up: try `sluice results {report.tasks[0].name if report.tasks else 'TASK'}`; "
        "`sluice down` stops it.",
        "AGREES: online and offline results are the same." if report.agrees else "DOES NOT AGREE: see above.",
    ]
    return "\n".join(lines)
