"""Restores a backup into an instance that has nothing yet.

From the first step to the last a marker lies in the instance's directory. With it the instance does not
start, and another restore deletes what is there and begins anew.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from sluice.backup import admission, own_files
from sluice.backup.contents import CELLS, MARKER, ROLES, SINCE
from sluice.backup.folder import BackupFolder, chosen, listed
from sluice.backup.manifest import DumpedDatabase, Manifest
from sluice.runtime.settings import Settings
from sluice.stack import bringup, shutdown, supervisord
from sluice.stack.daemons import airflow, hive
from sluice.stack.networking import network, private
from sluice.storage import postgres

if TYPE_CHECKING:
    from sluice.archive.verification import Verified

Say = Callable[[str], None]
Phase = Callable[[str], AbstractContextManager[Say]]

#: The daemons that hold data, and those through which it is written.
DAEMONS = ("postgres", "kafka", "namenode", "datanode", "hbase", "hbase-thrift")


class RestoreRuns(RuntimeError):
    """Another process restores or recovers the same instance."""


class RestoreDiffers(RuntimeError):
    """What was restored is not what the backup has."""


@dataclass(frozen=True)
class Restored:
    """What a restore wrote.

    differing: files of the checkout that are others than at the backup. problems: of the archive, which is as
    it was at the backup.
    """

    manifest: Manifest
    backup: Path
    rows: int  # of PostgreSQL
    cells: int  # of HBase
    lines: int  # of the archive
    problems: tuple[str, ...]
    differing: tuple[str, ...]


def restore(
    settings: Settings, source: Path, phase: Phase, say: Say, secrets: Path | None = None
) -> Restored:
    """Restore the backup, or the newest one of a directory; the instance is stopped afterwards.

    secrets: a tar with them, for a backup without. Raises TargetInUse and the other errors of
    `backup.admission` before anything is written, then what the daemons and stores raise, RestoreDiffers.
    """
    folder, backup = chosen(source)
    manifest = Manifest.read(backup)
    with alone(settings):
        admission.require_empty(settings)
        admission.require_fitting(settings, manifest)
        admission.require_room(settings, manifest)
        with phase("check") as told:
            admission.check_bytes(folder, backup, manifest, told)
        tar = admission.secrets_of(manifest, backup, secrets)
        _begin(settings, say)
        own_files.restore_secrets(settings, tar)
        paths = [part.path for part in manifest.parts if part.path.startswith(f"{own_files.WRITTEN}/")]
        differing = own_files.restore_written(settings, backup, paths)
        with running_daemons(settings, say, DAEMONS) as running:
            databases(running, backup, manifest, phase)
            files(running, folder, backup, phase)
            cells = tables(running, backup, manifest, phase)
            lines, problems = archive(running, manifest, phase)
        (settings.home / MARKER).unlink()
    rows = sum(table.rows for each in manifest.databases.values() for table in each.tables)
    return Restored(manifest, backup, rows, cells, lines, tuple(problems), tuple(differing))


@contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Let nobody else restore or recover the instance meanwhile. Raises RestoreRuns."""
    settings.home.parent.mkdir(parents=True, exist_ok=True)
    lock = settings.home.with_name(f".{settings.home.name}.restore")
    try:
        with FileLock(lock, timeout=0, mode=0o600):
            yield
    except Timeout:
        raise RestoreRuns(
            f"instance {settings.instance!r} is being restored or recovered: wait for the end"
        ) from None


def _begin(settings: Settings, say: Say) -> None:
    """Make the instance's directory with the marker; what an interrupted restore left is deleted first."""
    if settings.home.exists():
        if (settings.home / MARKER).exists():
            say("a restore was cut short: it begins anew")
            shutdown.abandon(settings)
        marker = settings.home / MARKER
        for path in settings.home.iterdir():
            if path != marker:  # the last to go: a kill in between leaves it
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.rmtree(network.folder(settings), ignore_errors=True)
    else:
        settings.home.mkdir(mode=0o700)
    (settings.home / MARKER).touch()
    private.close(settings)


@contextmanager
def running_daemons(settings: Settings, say: Say, names: Sequence[str]) -> Iterator[Settings]:
    """The settings with the secrets that are on disk then, while these daemons run."""
    try:
        bringup.up(settings, say, (), names)
        supervisord.stop_program(settings, "watch")  # it would note what it misses
        yield bringup.reread(settings)
    finally:
        shutdown.down(settings, say, lambda *_: None)


def databases(settings: Settings, backup: Path, manifest: Manifest, phase: Phase) -> None:
    """Make each database's schema by its own program, fill it, and bring ours to this release's."""
    from sluice.backup.database_copy import load, set_projected

    def projections(cursor: Any) -> None:
        set_projected(cursor, dict(manifest.projected))

    def locations(cursor: Any) -> None:
        hive.relocate(cursor, settings.hdfs.namenode, manifest.namenode)

    own = manifest.databases
    postgres.migrate(settings, own["sluice"].release)
    airflow.prepare_home(settings)
    airflow.migrate(settings)
    hive.create_schema(settings)
    changes: dict[str, Callable[[Any], None]] = {"sluice": projections, "metastore": locations}
    for name, role in zip(ROLES, settings.postgres.roles, strict=True):
        with phase(f"database {name}") as told:
            load(settings.postgres.of(role), own[name], backup, told, changes.get(name, _nothing))
            told(f"{rows_of(own[name]):,} rows")
    postgres.migrate(settings)


def rows_of(database: DumpedDatabase) -> int:
    return sum(table.rows for table in database.tables)


def _nothing(cursor: Any) -> None:
    """Change nothing of a database."""


def files(settings: Settings, folder: BackupFolder, backup: Path, phase: Phase) -> None:
    """Write the files into HDFS. They were compared with their hashes, and HDFS checks what arrives."""
    from sluice.backup.hdfs_copy import put_back, shown
    from sluice.storage.hdfs import HdfsStore

    store, done, size = HdfsStore.of(settings), 0, 0
    with phase("files") as told:
        for root in (settings.hdfs.raw, settings.hdfs.warehouse):
            store.make_directory(root)
        for each in listed(backup):
            put_back(store, folder, each)
            done, size = done + 1, size + each.bytes
            told(f"{done:,} files, {shown(size)}")


def tables(settings: Settings, backup: Path, manifest: Manifest, phase: Phase) -> int:
    """Write HBase's tables; returns how many cells. Raises RestoreDiffers."""
    from sluice.backup.hbase_copy import put_cells
    from sluice.storage.hbase import STATE, HBase, ensure_tables

    ensure_tables(settings)
    written = 0
    with HBase.of(settings) as hbase:
        for table, path in CELLS.items():
            with phase(f"HBase {table}") as told:
                found = sum(
                    put_cells(hbase, table, backup / each, told)
                    for each in (path, *([SINCE] if table == STATE else []))
                )
                if found != manifest.cells[table]:
                    raise RestoreDiffers(
                        f"HBase's table {table} got {found} cells, and the backup has {manifest.cells[table]}"
                    )
                told(f"{found:,} cells")
                written += found
    return written


def archive(settings: Settings, manifest: Manifest, phase: Phase) -> tuple[int, list[str]]:
    """Make Kafka's topics, and the archive's index of its footers; returns the archive's lines and problems.

    The archive may have files that came after the databases' moment. They are in the index before a layer
    looks at Kafka: else its first era could end before them.
    """
    from sluice.transmission.topics import Topics

    lines, problems = 0, list(manifest.problems)
    with phase("archive") as told, Topics(settings) as topics:
        for topic, partitions in manifest.topics.items():
            topics.create(topic, partitions=partitions)
            for each in _verified(settings, topic, problems):
                lines += each.lines
                problems += [said for said in each.problems if said not in problems]
                told(f"{lines:,} lines, {len(problems)} problems")
    return lines, problems


def _verified(settings: Settings, topic: str, problems: list[str]) -> Iterator[Verified]:
    from sluice.archive.footer import UnreadableArchiveFile
    from sluice.archive.verification import NotArchived, rebuild, verify

    try:
        for _ in rebuild(settings, topic):
            pass
    except NotArchived:
        return
    except UnreadableArchiveFile as error:
        if str(error) not in problems:
            problems.append(str(error))
    yield from verify(settings, topic)
