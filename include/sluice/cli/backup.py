"""`sluice backup` and `sluice restore`: all that an instance has, in a directory, and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.output.phases import Phases

if TYPE_CHECKING:
    from sluice.backup.restore import Restored
    from sluice.backup.take import TakenBackup

MIB = 1 << 20
#: Faults of an archive that are named here.
SHOWN = 10


def backup(
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="A directory with backups; made if it is missing.")
    ],
    without_secrets: Annotated[
        bool,
        typer.Option("--without-secrets", help="Leave passwords and keys out; a restore then asks for them."),
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="Then delete all but so many of the newest backups."),
    ] = None,
) -> None:
    """Back the running instance up into a directory of this machine.

    A backup is all that the platform knows as of one moment: PostgreSQL's databases, HBase's tables, the
    archive and Hive's tables, secrets and settings. Lines may come meanwhile. The speed layer waits for a
    moment, nights and backfills for as long as HBase is copied.

    Files of HDFS that an earlier backup in TARGET has are not copied again. Each backup is a folder, named by
    its time, and counts once it has a manifest.json; one that was cut short is no backup, and the next one
    goes on from what it copied.

    Kafka is not in it: lines that were not archived yet are in the front-ends' files alone.

    Examples:
      sluice backup /srv/backup
      sluice backup /srv/backup --keep 14          for cron: two weeks of nights
      sluice backup /srv/backup --without-secrets

    Exit code 1 if the backup failed, or the archive has faults, which are then named and in the backup, too.
    """
    from sluice.backup.take import take
    from sluice.runtime.settings import get_settings
    from sluice.stack import supervisord

    settings = get_settings()
    if not settings.hosts and not supervisord.running(settings):
        raise supervisord.SupervisorDown(settings)
    taken = take(settings, target, Phases().phase, secrets=not without_secrets)
    _say_taken(taken)
    if keep is not None:
        _keep(target, keep)
    _end(taken.manifest.problems)


def _say_taken(taken: TakenBackup) -> None:
    said = taken.manifest
    own = sum(part.bytes for part in said.parts)
    typer.echo(
        f"\n{taken.folder}\n{said.files:,} files of HDFS, {_mib(said.file_bytes)}: {taken.copied:,} of them "
        f"new, {_mib(taken.copied_bytes)}\ndatabases, HBase and own files: {_mib(own)}"
    )
    if said.with_secrets:
        typer.echo("secrets.tar has the instance's passwords and keys (mode 0600): keep the backup safe")


def _keep(target: Path, number: int) -> None:
    from sluice.backup.folder import BackupFolder

    folder = BackupFolder(target)
    with folder.held():
        gone, freed = folder.keep(number)
    typer.echo(f"{gone} older backups are deleted, {_mib(freed)} of files that only they had")


def restore(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A directory that `sluice backup` wrote, or one of the backups in it."
        ),
    ],
    instance: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The instance to restore to; it must have no data."),
    ] = None,
    secrets: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="For a backup without secrets: the secrets.tar of another one."),
    ] = None,
) -> None:
    """Restore a backup into an instance that has no data, and leave it ready for `sluice up`.

    Of a directory with several backups, the newest is restored. Everything is checked before anything is
    written: the release, and each byte by its hash. Then the daemons that hold data are started, filled,
    compared with the backup, and stopped again.

    A restore that was cut short leaves an instance that does not start. Repeat it: it begins anew.

    Kafka is empty afterwards. Both layers go on with the next line that comes. Edges on this machine send all
    files again that are still there; lines that count already are not counted twice.

    Examples:
      sluice restore /srv/backup                                       the newest backup
      sluice restore /srv/backup/20260105T020000.000000Z --instance trial
      sluice restore /srv/backup --secrets /vault/secrets.tar

    Exit code 1 if it failed or the archive has faults, 2 if the backup or the instance does not allow it.
    """
    if instance:
        os.environ["SLUICE_INSTANCE"] = instance
    from sluice.backup.restore import restore as put_back
    from sluice.runtime.settings import Settings, get_settings

    get_settings.cache_clear()
    settings = Settings()
    done = put_back(settings, source, Phases().phase, typer.echo, secrets)
    _say_restored(settings.instance, done)
    _end(done.problems)


def _say_restored(instance: str, done: Restored) -> None:
    typer.echo(
        f"\n{done.backup} is restored to instance {instance}: {done.rows:,} rows in PostgreSQL, "
        f"{done.cells:,} cells in HBase, {done.manifest.files:,} files in HDFS, {done.lines:,} lines in the "
        "archive"
    )
    for name in done.differing:
        typer.echo(f"another file here than at the backup: compare yours with {done.backup / name}")
    typer.echo(f"Start it with `sluice --instance {instance} up`")


def _end(problems: Sequence[str]) -> None:
    """Name what is wrong with the archive; exit with 1 if anything is."""
    for each in problems[:SHOWN]:
        typer.echo(f"the archive: {each}", err=True)
    if problems:
        typer.echo(f"{len(problems)} faults: `sluice archive verify` lists them, and what to do", err=True)
        raise typer.Exit(1)


def _mib(size: int) -> str:
    return f"{size / MIB:,.1f} MiB"
