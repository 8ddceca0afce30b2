"""A backup that is cut short at any step is none, harms no earlier one, and is gone on with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sluice.backup import take as module
from sluice.backup.admission import check_bytes
from sluice.backup.contents import CELLS, SINCE, ExternalService
from sluice.backup.folder import BackupFolder, listed
from sluice.backup.hdfs_copy import HdfsCopier
from sluice.backup.manifest import DumpedDatabase, DumpedTable, Manifest
from sluice.backup.parts import BackupParts
from sluice.backup.take import TakenSnapshots, missing, take
from sluice.runtime.settings import Settings, make_secret
from sluice.storage.hdfs import HdfsStore
from sluice.storage.stores import LocalStore
from tests.backup import stores

pytestmark = pytest.mark.slow

PHASES = ["files", "hbase", "databases", "files since then", "files of the instance"]


class TablesInMemory:
    """A database's snapshot without PostgreSQL: what the queries of a backup find."""

    def __init__(self, files: Callable[[], Sequence[tuple[str, int]]]) -> None:
        self._files = files

    def rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        if "archive_files" in query:
            return iter(self._files())
        return iter([("0026",)] if "alembic" in query else [("logs", 2)])

    def dump(
        self, parts: BackupParts, folder: str, release: str, say: Callable[[str], None]
    ) -> DumpedDatabase:
        parts.add(f"{folder}/public.tasks.zst", b"rows")
        table = DumpedTable("public", "tasks", ("id",), 1, f"{folder}/public.tasks.zst")
        return DumpedDatabase(release, (table,), {})


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    made = stores.instance(tmp_path)
    make_secret(made.home, "identity")
    monkeypatch.setattr(HdfsStore, "of", lambda _: LocalStore())
    monkeypatch.setattr(module, "snapshots", without_daemons)
    write_archive(made, 0)
    return made


def write_archive(settings: Settings, first: int) -> None:
    stores.write_archive(Path(settings.hdfs.raw), first, first + 10)


def indexed(settings: Settings) -> list[tuple[str, int]]:
    return [(str(path), path.stat().st_size) for path in Path(settings.hdfs.raw).rglob("*.parquet")]


@contextmanager
def without_daemons(
    settings: Settings, parts: BackupParts, copier: HdfsCopier, phase: module.Phase
) -> Iterator[TakenSnapshots]:
    """What `take.snapshots` does, of stores in memory."""
    copier.copy(settings.hdfs.warehouse, stores.silent)
    with phase("hbase"):
        for path in (*CELLS.values(), SINCE):
            parts.add(path, b"cells")
    databases: dict[str, Any] = {
        name: TablesInMemory(lambda: indexed(settings)) for name in ("sluice", "airflow", "metastore")
    }
    yield TakenSnapshots(databases, {"state": 1}, {"logs": 7})


def dying(where: str) -> module.Phase:
    """The fault: the process dies within that phase."""

    @contextmanager
    def phase(name: str) -> Iterator[Any]:
        yield stores.silent
        if name == where:
            raise KeyboardInterrupt

    return phase


def test_a_backup_has_all_that_its_manifest_says(settings: Settings, tmp_path: Path) -> None:
    taken = take(settings, tmp_path / "backups", stores.quiet)
    assert Manifest.read(taken.folder) == taken.manifest
    check_bytes(BackupFolder(tmp_path / "backups"), taken.folder, taken.manifest, stores.silent)
    assert [(each.path, each.bytes) for each in listed(taken.folder)] == indexed(settings)
    said = taken.manifest
    assert (said.files, said.topics, said.projected, said.databases["sluice"].release) == (
        1, {"logs": 2}, {"logs": 7}, "0026",
    )  # fmt: skip
    assert said.with_secrets
    assert (taken.folder / "secrets.tar").exists()


def test_without_secrets_there_are_none(settings: Settings, tmp_path: Path) -> None:
    taken = take(settings, tmp_path / "backups", stores.quiet, secrets=False)
    assert not taken.manifest.with_secrets
    assert not list((tmp_path / "backups").rglob("secrets*"))


@pytest.mark.parametrize("where", PHASES)
def test_a_backup_that_is_cut_short_is_none_and_the_next_goes_on(
    settings: Settings, tmp_path: Path, where: str
) -> None:
    target = tmp_path / "backups"
    first = take(settings, target, stores.quiet)
    write_archive(settings, 10)
    with pytest.raises(KeyboardInterrupt):
        take(settings, target, dying(where))
    assert BackupFolder(target).complete() == [first.folder]
    check_bytes(BackupFolder(target), first.folder, first.manifest, stores.silent)
    second = take(settings, target, stores.quiet)
    assert BackupFolder(target).complete() == [first.folder, second.folder]
    assert second.copied == 0  # the one that was cut short had copied it
    assert second.manifest.files == 2
    check_bytes(BackupFolder(target), second.folder, second.manifest, stores.silent)


def test_files_that_come_meanwhile_are_in_it(settings: Settings, tmp_path: Path) -> None:
    @contextmanager
    def phase(name: str) -> Iterator[Any]:
        if name == "databases":
            write_archive(settings, 10)
        yield stores.silent

    taken = take(settings, tmp_path / "backups", phase)
    assert taken.manifest.files == taken.copied == 2


def test_an_archive_that_lacks_a_file_of_its_index_is_named(settings: Settings, tmp_path: Path) -> None:
    copier = HdfsCopier(LocalStore(), BackupFolder(tmp_path))
    copier.copy(settings.hdfs.raw, stores.silent)
    assert list(missing(copier, settings.hdfs.raw, iter(indexed(settings)))) == []
    (said,) = missing(copier, settings.hdfs.raw, iter([*indexed(settings), ("/sluice/raw/gone", 1)]))
    assert said == "/sluice/raw/gone is in the archive's index with 1 bytes, and in HDFS are none"


def test_faults_of_the_archive_are_in_the_manifest(settings: Settings, tmp_path: Path) -> None:
    (path, _), *_ = indexed(settings)
    Path(path).write_bytes(b"damaged")
    taken = take(settings, tmp_path / "backups", stores.quiet)
    (said,) = Manifest.read(taken.folder).problems
    assert path in said


def test_services_elsewhere_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    outside = Settings(instance="test", external=frozenset({"hdfs"}))
    with pytest.raises(ExternalService):
        take(outside, tmp_path / "backups", stores.quiet)
    assert not (tmp_path / "backups").exists()
