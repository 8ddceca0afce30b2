"""`sluice up | down | status | logs | reset`: the instance's daemons."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.asked_by import me
from sluice.cli.output.terminal import alarm
from sluice.runtime.settings import Settings

if TYPE_CHECKING:
    from sluice.stack.status import DiskLine, StatusLine

MIB = 1 << 20
ROOT_WARNING = """WARNING: the platform is started as root. Whoever finds a hole in one of its daemons,
or may edit a DAG or a metric, is root on this machine. Start it as a user of its own: useradd sluice."""


class NoCommand(ValueError):
    """The command cannot be run."""


class NothingToShow(LookupError):
    """There is no log of that name."""


def up(
    external: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Services that run elsewhere and are not started: postgres, kafka, hdfs, hbase, metastore, "
            "sql, airflow. Their addresses are settings: SLUICE_KAFKA__BOOTSTRAP, SLUICE_HDFS__NAMENODE, ...",
        ),
    ] = "",
) -> None:
    """Start every daemon in order, wait until all are healthy, and fill them.

    Resolves the jars first if a pom changed. It leaves alone what already runs, so it can be
    repeated.

    Examples:
      sluice up
      sluice --instance dev up
      SLUICE_KAFKA__BOOTSTRAP=kafka1:9092 sluice up --external kafka

    Exit code 1 if a daemon does not become healthy; its last log lines are shown.
    """
    from sluice.cli import exposure, instance
    from sluice.collection import inventory
    from sluice.collection.hosting import hosting
    from sluice.stack import catalogue, journal, settings_book

    if external:
        os.environ["SLUICE_EXTERNAL"] = json.dumps(sorted(catalogue.external(external)))
    settings = Settings()
    if os.geteuid() == 0:
        alarm(ROOT_WARNING)
    exposure.warn(settings)
    typer.echo(f"instance {settings.instance}: {settings.home}")
    instance.up(settings, typer.echo)
    before, after = settings_book.changed(
        settings, [inventory.path_of(settings), *hosting().settings_files(settings)]
    )
    if before or after:
        journal.note(
            settings,
            who=me(),
            what="settings",
            name=settings.instance,
            action="changed",
            before=before,
            after=after,
        )
    (settings.root / "var" / "current").write_text(settings.instance)
    _say_where(settings)


def _say_where(settings: Settings) -> None:
    typer.echo(
        f"\nAirflow  {settings.airflow.url}  user {settings.airflow.user}, "
        f"password in {settings.home}/secrets/airflow_admin"
    )
    if settings.speaks_tls("airflow") and not settings.tls.certificate:
        typer.echo("Its certificate is of the instance's own authority: `sluice tls` says how to trust it")


def down() -> None:
    """Stop the jobs and every daemon, in reverse order.

    The data stays; `sluice up` goes on where it was.
    """
    from sluice.cli import instance

    settings = Settings()
    if not instance.down(settings, typer.echo):
        typer.echo(f"nothing of instance {settings.instance} runs")


def status(
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Show each daemon and job: state, port, memory, health; the space on disks; and the open alerts.

    Exit code 1 if anything that should run is not healthy, or is held because a disk is nearly full. An agent
    whose host does not answer is unknown, which is shown and is no failure: it may well run.
    """
    from dataclasses import asdict

    from sluice.cli import far
    from sluice.stack import status as stack_status
    from sluice.stack.status import DaemonState

    settings = Settings()
    daemons, jobs = stack_status.daemons(settings), [*stack_status.jobs(settings), *far.agents(settings)]
    works = any(line.state == DaemonState.RUNNING for line in daemons)
    alerts = stack_status.alerts(settings) if works else []
    lines, disks, held = [*daemons, *jobs], stack_status.disk_lines(settings), stack_status.held(settings)
    if as_json:
        report = {
            "instance": settings.instance,
            "daemons": [asdict(line) for line in daemons],
            "jobs": [asdict(line) for line in jobs],
            "alerts": [{**asdict(alert), "raised_at": alert.raised_at.isoformat()} for alert in alerts],
            "disks": [asdict(line) for line in disks],
            "held": held,
        }
        typer.echo(json.dumps(report, indent=1))
    else:
        typer.echo(f"instance {settings.instance}: {settings.home}\n")
        typer.echo(_processes(lines))
        if disks:
            typer.echo(_space(disks), nl=False)
        for what, why in held.items():
            typer.echo(f"HELD  {what}: {why}")
        for alert in alerts:
            typer.echo(f"ALERT since {alert.raised_at:%Y-%m-%d %H:%M:%S}  {alert.source}: {alert.message}")
    healthy = all(line.healthy or line.state == DaemonState.UNKNOWN for line in lines)
    raise typer.Exit(0 if healthy and not held else 1)


def _processes(lines: Sequence[StatusLine]) -> str:
    from sluice.cli.output.format import table

    rows = [
        (of.name, of.state, of.port or None, of.memory_bytes // MIB or None, of.problem or "healthy")
        for of in lines
    ]
    memory = sum(line.memory_bytes for line in lines) // MIB
    return f"{table(['name', 'state', 'port', 'MiB', 'health'], rows)}\n{memory} MiB in all\n"


def _space(disks: Sequence[DiskLine]) -> str:
    from sluice.cli.output.format import table

    def gib(size: int) -> str:
        return f"{size / (1 << 30):.1f}"

    rows = [(", ".join(of.folders), gib(of.free), gib(of.size), of.problem or "enough") for of in disks]
    return table(["disk of", "free GiB", "GiB", "space"], rows)


def logs(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A daemon or job as `sluice status` names it.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on showing what is added; Ctrl-C ends it.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 50,
) -> None:
    """Show the end of the log of a daemon or a job.

    Examples:
      sluice logs hbase -n 200
      sluice logs speed_layer -f
    """
    from sluice.cli import far
    from sluice.stack.log import log_file, log_tail

    settings = Settings()
    if agent := far.agent(settings, name):
        if follow:
            raise NoCommand(
                f"{name} runs on {agent.runs_on}, whose logs are not followed: leave out --follow"
            )
        typer.echo("\n".join(far.logs(settings, agent, lines)))
        return
    path = log_file(settings, name)
    if not path.exists():
        known = ", ".join(sorted(found.stem for found in path.parent.glob("*.log")))
        raise NothingToShow(
            f"there is no log of {name!r}: the logs are {known or 'not there yet: sluice up'}"
        )
    if follow:
        raise typer.Exit(subprocess.run(["tail", "-n", str(lines), "-F", str(path)], check=False).returncode)
    typer.echo("\n".join(log_tail(settings, name, lines)))


def execute(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND ...", help="The command and its arguments, behind two dashes."),
    ],
) -> None:
    """Run any command inside the instance's private network.

    The daemons run in a network of their own, where no other user of this machine reaches them, and neither
    does your browser. Only Airflow, the SQL endpoint and PostgreSQL have a door to this machine's network.
    The command gets your environment and that of Airflow's tasks. The instance adds no password to it.

    Examples:
      sluice exec -- curl http://127.0.0.1:21031/jmx     ask the NameNode
      sluice exec -- airflow dags list                   Airflow's own command line
      sluice exec -- bash                                a shell in the network

    The exit code is the command's own.
    """
    from sluice.stack import supervisord
    from sluice.stack.airflow.configuration import PREFIX, write_config
    from sluice.stack.environment import environment

    settings = Settings()
    if not supervisord.running(settings):
        raise supervisord.SupervisorDown(settings)
    write_config(settings)  # Airflow refuses to start without it, be it another's
    yours = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    try:
        os.execvpe(command[0], command, {**yours, **environment(settings)})  # noqa: S606 - no shell: the words are the user's own command
    except OSError as error:
        raise NoCommand(f"exec: {command[0]!r}: {error.strerror}") from error


def reset(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Stop the instance and delete its data, secrets and logs.

    The jars stay, because all instances share them. Agents and jobs on other hosts are stopped; what is in
    their folders there stays. Agents that could not be stopped are named, and hosts that may still run jobs.
    """
    from sluice.collection import deploy
    from sluice.stack import shutdown
    from sluice.stack.networking import network

    settings = Settings()
    if not settings.home.exists():
        network.close(settings)
        typer.echo(f"instance {settings.instance} has no data")
        return
    if not yes:
        typer.confirm(f"Delete all of instance {settings.instance} under {settings.home}?", abort=True)
    shutdown.abandon(settings)
    deploy.stop_far(settings, typer.echo)  # after Airflow, which would start them again
    _stop_jobs_elsewhere(settings)
    shutil.rmtree(settings.home)
    shutil.rmtree(network.folder(settings), ignore_errors=True)
    current = settings.root / "var" / "current"
    if current.exists() and current.read_text().strip() == settings.instance:
        current.unlink()
    typer.echo(f"deleted {settings.home}")


def _stop_jobs_elsewhere(settings: Settings) -> None:
    """Stop the jobs on other hosts, whose shadows were killed; hosts that cannot be asked are named."""
    from sluice.collection.errors import HostListError
    from sluice.stack.job_hosting import job_hosting

    try:
        for host, why in job_hosting().stop_leftovers(settings, typer.echo).items():
            typer.echo(f"host {host}: a job may still run there: {why}")
    except HostListError as error:
        typer.echo(f"jobs on other hosts may still run: {error}")
