"""Takes a backup of a running instance, as of one moment between two commits of the speed layer.

docs/decisions/0087-backups.md says why what is copied fits together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from sluice.backup import hbase_copy, own_files
from sluice.backup.contents import CELLS, METASTORE, ROLES, SINCE, require_own
from sluice.backup.database_copy import DatabaseSnapshot
from sluice.backup.folder import LISTED, BackupFolder
from sluice.backup.hdfs_copy import HdfsCopier
from sluice.backup.hold import TableHold
from sluice.backup.manifest import DumpedDatabase, Manifest
from sluice.backup.parts import BackupParts
from sluice.runtime.files import settle
from sluice.runtime.installed import own_version
from sluice.runtime.sections import Postgres
from sluice.runtime.settings import Settings
from sluice.storage.hbase import STATE, HBase
from sluice.storage.hdfs import HdfsStore

Say = Callable[[str], None]
#: Runs a named phase; what the function that it yields is given is shown.
Phase = Callable[[str], AbstractContextManager[Say]]

_PROJECTED = "SELECT topic, seq FROM projections"
_TOPICS = "SELECT topic, max(partition) + 1 FROM log_eras GROUP BY topic"
_INDEXED = "SELECT path, bytes FROM archive_files"
_REVISION = "SELECT version_num FROM alembic_version"


@dataclass(frozen=True)
class CopiedMoment:
    """What a manifest says of the moment that a backup is of; see there."""

    databases: Mapping[str, DumpedDatabase]
    cells: Mapping[str, int]
    projected: Mapping[str, int]
    topics: Mapping[str, int]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class TakenBackup:
    """A backup, and how much of HDFS no earlier one had."""

    folder: Path
    manifest: Manifest
    copied: int  # files
    copied_bytes: int


@dataclass(frozen=True)
class TakenSnapshots:
    """The three databases as of one moment, and the commits up to which the copied results are complete."""

    databases: Mapping[str, DatabaseSnapshot]
    cells: Mapping[str, int]
    projected: Mapping[str, int]


def take(settings: Settings, target: Path, phase: Phase, *, secrets: bool = True) -> TakenBackup:
    """Write a backup into the directory.

    It counts once this returns. Raises ExternalService, BadTarget, BackupRuns, NotHeld, and what the stores
    raise.
    """
    require_own(settings)
    folder = BackupFolder(target)
    with folder.held():
        began = datetime.now(UTC)
        parts = folder.begin(began)
        copier = HdfsCopier(HdfsStore.of(settings), folder)
        with phase("files") as say:
            for root in (settings.hdfs.raw, settings.hdfs.warehouse):
                copier.copy(root, say)
        with snapshots(settings, parts, copier, phase) as taken:
            with phase("databases") as say:
                releases = releases_of(taken.databases["sluice"])
                dumped = {
                    name: each.dump(parts, f"postgres-{name}", releases[name], say)
                    for name, each in taken.databases.items()
                }
                topics = dict(taken.databases["sluice"].rows(_TOPICS))
            with phase("files since then") as say:
                copier.copy(settings.hdfs.raw, say)
                gone = list(missing(copier, settings.hdfs.raw, taken.databases["sluice"].rows(_INDEXED)))
                problems = (*copier.problems.values(), *gone)
            moment = CopiedMoment(dumped, taken.cells, taken.projected, topics, problems)
        with phase("files of the instance") as say:
            own_files.save_written(settings, parts)
            if secrets:
                own_files.save_secrets(settings, parts)
            say("with secrets: keep the backup safe" if secrets else "without secrets")
        manifest = described(settings, parts, copier, moment, began=began, secrets=secrets)
        for each in (parts.folder, *(path for path in parts.folder.rglob("*") if path.is_dir())):
            settle(each)
        manifest.write(parts.folder)
        settle(folder.root)
    return TakenBackup(parts.folder, manifest, copier.copied, copier.copied_bytes)


@contextmanager
def snapshots(
    settings: Settings, parts: BackupParts, copier: HdfsCopier, phase: Phase
) -> Iterator[TakenSnapshots]:
    """Copy HBase, and open a snapshot of each database that fits it; then nothing is held any more.

    The results are complete up to the commits that were projected before they were copied; a restore has the
    projector write again what later commits changed.
    """
    roles = dict(zip(ROLES, map(settings.postgres.of, settings.postgres.roles), strict=True))
    with closing(TableHold(roles["sluice"])) as hold, HBase.of(settings) as hbase, hold.nights():
        with phase("days computed meanwhile") as say:
            copier.copy(settings.hdfs.warehouse, say)
        projected = _projected(roles["sluice"])
        cells = {}
        for table, path in CELLS.items():
            with phase(table) as say:
                cells[table] = hbase_copy.export(parts, path, hbase.scan(table), say)
        with hold.commits():
            with phase("state since then") as say:
                new = hbase_copy.since(hbase, STATE, parts.folder / CELLS[STATE])
                cells[STATE] += hbase_copy.export(parts, SINCE, new, say)
            opened = {name: DatabaseSnapshot(own) for name, own in roles.items()}
    try:
        yield TakenSnapshots(opened, cells, projected)
    finally:
        for each in opened.values():
            each.close()


def _projected(own: Postgres) -> dict[str, int]:
    with closing(DatabaseSnapshot(own)) as now:
        return dict(now.rows(_PROJECTED))


def releases_of(database: DatabaseSnapshot) -> dict[str, str]:
    """By what each database's schema was made."""
    (revision,) = (name for (name,) in database.rows(_REVISION))
    return {
        "sluice": revision,
        "airflow": f"apache-airflow {version('apache-airflow')}",
        "metastore": METASTORE,
    }


def missing(copier: HdfsCopier, raw: str, indexed: Iterator[tuple[str, int]]) -> Iterator[str]:
    """What the archive's index has and the copy of the archive has not."""
    there = {each.path: each.bytes for each in copier.trees[raw]}
    for path, length in indexed:
        if there.get(path) != length:
            found = there.get(path, "none")
            yield f"{path} is in the archive's index with {length} bytes, and in HDFS are {found}"


def described(
    settings: Settings,
    parts: BackupParts,
    copier: HdfsCopier,
    moment: CopiedMoment,
    *,
    began: datetime,
    secrets: bool,
) -> Manifest:
    """The manifest, with the list of files as the last part."""
    files = size = 0
    with parts.writing(LISTED) as out:
        for each in copier.files():
            out.write(json.dumps(asdict(each)).encode() + b"\n")
            files, size = files + bool(each.sha256), size + each.bytes
    return Manifest(
        instance=settings.instance,
        began=began.isoformat(),
        ended=datetime.now(UTC).isoformat(),
        release=own_version(),
        namenode=settings.hdfs.namenode,
        raw=settings.hdfs.raw,
        warehouse=settings.hdfs.warehouse,
        **vars(moment),
        secrets=own_files.fingerprint(settings),
        with_secrets=secrets,
        files=files,
        file_bytes=size,
        parts=tuple(parts.found),
    )
