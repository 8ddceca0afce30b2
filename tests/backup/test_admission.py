"""A restore is refused before anything is written, and says why and what to do."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from sluice.backup import admission
from sluice.backup.admission import DiskTooSmall, OtherRelease, SecretsMissing, TargetInUse
from sluice.backup.contents import MARKER, METASTORE
from sluice.backup.folder import LISTED, BackupFolder
from sluice.backup.manifest import BackupPart, DamagedBackup, DumpedDatabase, Manifest
from sluice.runtime.settings import Settings
from sluice.storage.postgres import SchemaRefused
from tests.backup import stores


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return stores.instance(tmp_path)


def fitting(settings: Settings) -> Manifest:
    releases = {
        "sluice": newest(),
        "airflow": f"apache-airflow {version('apache-airflow')}",
        "metastore": METASTORE,
    }
    databases = {name: DumpedDatabase(release, (), {}) for name, release in releases.items()}
    return stores.manifest(databases=databases, raw=settings.hdfs.raw, warehouse=settings.hdfs.warehouse)


def newest() -> str:
    from alembic.script import ScriptDirectory

    from sluice.storage.postgres import alembic_config

    return str(ScriptDirectory.from_config(alembic_config()).get_current_head())


def test_an_instance_with_data_is_refused(settings: Settings) -> None:
    admission.require_empty(settings)
    settings.home.mkdir(parents=True)
    admission.require_empty(settings)
    (settings.home / "secrets").mkdir()
    with pytest.raises(TargetInUse, match="sluice --instance trial reset"):
        admission.require_empty(settings)
    (settings.home / MARKER).touch()  # what an interrupted restore left
    admission.require_empty(settings)


@pytest.mark.slow
def test_the_release_must_be_able_to_take_the_databases(settings: Settings) -> None:
    admission.require_fitting(settings, fitting(settings))


@pytest.mark.parametrize(
    ("name", "release", "error", "said"),
    [
        ("sluice", "9999_future", SchemaRefused, "newer release"),
        ("airflow", "apache-airflow 1.0", OtherRelease, "of airflow is of apache-airflow 1.0"),
        ("metastore", "hive-schema-9", OtherRelease, "with Sluice 0.1.0, which took it"),
    ],
)
def test_another_release_is_refused(
    settings: Settings, name: str, release: str, error: type[Exception], said: str
) -> None:
    made = fitting(settings)
    other = {**made.databases, name: DumpedDatabase(release, (), {})}
    with pytest.raises(error, match=said):
        admission.require_fitting(settings, replace(made, databases=other))


def test_other_directories_in_hdfs_are_refused(settings: Settings) -> None:
    with pytest.raises(OtherRelease, match="SLUICE_HDFS__RAW=/old/raw"):
        admission.require_fitting(settings, replace(fitting(settings), raw="/old/raw"))


def test_a_backup_without_secrets_asks_for_them(tmp_path: Path) -> None:
    with pytest.raises(SecretsMissing, match=re.escape("--secrets FILE")):
        admission.secrets_of(stores.manifest(with_secrets=False), tmp_path, None)


def test_a_disk_without_room_is_refused(settings: Settings) -> None:
    admission.require_room(settings, stores.manifest(file_bytes=1))
    with pytest.raises(DiskTooSmall, match="make room"):
        admission.require_room(settings, stores.manifest(file_bytes=1 << 60))


@pytest.mark.parametrize("damaged", ["part", "listed", "pooled"])
def test_each_byte_is_read_before_anything_is_written(tmp_path: Path, damaged: str) -> None:
    folder = BackupFolder(tmp_path)
    incoming = folder.incoming()
    incoming.write(b"parquet")
    pooled = folder.join(incoming)
    backup = tmp_path / "20260105T020000.000000Z"
    line = f'{{"path": "/a", "bytes": 7, "tail": "", "sha256": "{pooled}"}}\n'.encode()
    parts = []
    for path, data in {"part": b"rows", LISTED: line}.items():
        out = stores.written(backup / path, data)
        parts.append(BackupPart(path, *out))
    made = stores.manifest(parts=tuple(parts))
    said: list[str] = []
    admission.check_bytes(folder, backup, made, said.append)
    assert len(said) == len(parts) + 1
    changed = {"part": backup / "part", "listed": backup / LISTED, "pooled": folder.pooled(pooled)}[damaged]
    changed.write_bytes(changed.read_bytes()[:-1] + b"?")
    with pytest.raises(DamagedBackup, match=changed.name):
        admission.check_bytes(folder, backup, made, said.append)
