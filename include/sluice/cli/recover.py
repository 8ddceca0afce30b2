"""`sluice recover`: PostgreSQL is lost, and there is no backup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.output.phases import Phases

if TYPE_CHECKING:
    from sluice.backup.recover import RecoveredTopic, RecoveryPlan
    from sluice.runtime.settings import Settings

MIB = 1 << 20
#: Faults of an archive, and names of tasks, that are shown here.
SHOWN = 10


def recover(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what there is to recover from; change nothing.")
    ] = False,
    declare_lost: Annotated[
        bool,
        typer.Option(
            "--declare-lost", help="Let gaps of the archive that Kafka cannot fill be losses, for good."
        ),
    ] = False,
) -> None:
    """Make the instance's lost PostgreSQL again, and leave the instance ready for `sluice up`.

    For an instance whose PostgreSQL has no data any more, and of which there is no backup. Everything else
    must still stand: HDFS with the archive, and Kafka. An instance that runs, or has a database, is refused.

    The definitions (tasks with all versions, topics, lists, dashboards) come from HDFS, where the watch keeps
    them. The archive's index is made of its files' footers; the byte ledger, the days and the dead letters
    of its lines. HBase's tables are made anew. After `sluice up`, the speed layer goes on in Kafka where the
    archive ends, and the DAG rebuild counts again what is archived; readers say so until then. No line is
    lost, and none counts twice.

    Gaps of the archive are filled from Kafka first. If it cannot, the recovery stops before it counts: bring
    the files back and repeat it, or give --declare-lost.

    What does not come back is said at the end. A recovery that was cut short leaves an instance that does not
    start: repeat it, and it goes on.

    Examples:
      sluice recover --dry-run
      sluice --instance main recover

    Exit code 1 if it failed or the archive has faults, which are named; 2 if the instance does not allow it.
    """
    from sluice.backup import recover as recovery
    from sluice.runtime.settings import Settings

    settings = Settings()
    if dry_run:
        _say_plan(recovery.look(settings, typer.echo))
        typer.echo("nothing was changed")
        return
    plan, topics = recovery.recover(settings, Phases().phase, typer.echo, declare_lost)
    _say_plan(plan)
    _say_done(settings, topics)
    _say_faults([said for each in topics for said in each.problems])


def _say_done(settings: Settings, topics: list[RecoveredTopic]) -> None:
    """What is gone, and what comes next."""
    from sluice.backup import recover as recovery

    typer.echo("\nWhat does not come back:")
    for each in recovery.GONE:
        typer.echo(f"  - {each}")
    typer.echo(
        f"\n{sum(each.periods for each in topics):,} periods are counted again once the platform runs: start "
        f"it with `sluice --instance {settings.instance} up`, and follow `sluice rebuild TOPIC --list`"
    )


def _say_faults(problems: list[str]) -> None:
    """Name the archive's faults, and exit with 1 if there are any."""
    for said in problems[:SHOWN]:
        typer.echo(f"the archive: {said}", err=True)
    if problems:
        typer.echo(f"{len(problems)} faults: `sluice archive verify` lists them, and what to do", err=True)
        raise typer.Exit(1)


def _say_plan(plan: RecoveryPlan) -> None:
    names = plan.tasks
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    typer.echo(
        f"definitions of {plan.written:%Y-%m-%d %H:%M:%S} UTC: {len(names)} tasks"
        + (f" ({', '.join(names[:SHOWN])}{more})" if names else "")
    )
    for topic, (files, size) in plan.archived.items():
        typer.echo(f"archive of {topic}: {files:,} files, {size / MIB:,.1f} MiB")
