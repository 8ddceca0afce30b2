"""Whether a backup may be restored here: all is looked at before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from sluice.backup import own_files
from sluice.backup.contents import MARKER, METASTORE, require_own
from sluice.backup.folder import BackupFolder, listed
from sluice.backup.manifest import Manifest
from sluice.backup.parts import check_part
from sluice.runtime.settings import Settings
from sluice.storage.postgres import check_revisions

Say = Callable[[str], None]
MIB = 1 << 20


class TargetInUse(ValueError):
    """The instance that a backup would be restored to has data."""


class OtherRelease(ValueError):
    """What is installed here cannot take the backup's databases."""


class SecretsMissing(ValueError):
    """A backup without secrets needs them from elsewhere."""


class DiskTooSmall(RuntimeError):
    """The backup does not fit."""


def require_empty(settings: Settings) -> None:
    """Raise TargetInUse if the instance has anything that no interrupted restore left there."""
    require_own(settings)
    home, name = settings.home, settings.instance
    if home.exists() and any(home.iterdir()) and not (home / MARKER).exists():
        raise TargetInUse(
            f"instance {name!r} has data in {home}, and a restore never replaces any: restore to another one "
            f"(--instance NAME), or delete this one first (`sluice --instance {name} reset`)"
        )


def require_fitting(settings: Settings, manifest: Manifest) -> None:
    """Raise OtherRelease or SchemaRefused if the backup's databases do not fit what is installed here."""
    check_revisions([manifest.databases["sluice"].release])
    here = {"airflow": f"apache-airflow {version('apache-airflow')}", "metastore": METASTORE}
    for name, release in here.items():
        if manifest.databases[name].release != release:
            raise OtherRelease(
                f"the backup's database of {name} is of {manifest.databases[name].release}, and {release} is "
                f"installed: restore it with Sluice {manifest.release}, which took it, and upgrade then"
            )
    for name, was in (("raw", manifest.raw), ("warehouse", manifest.warehouse)):
        if getattr(settings.hdfs, name) != was:
            raise OtherRelease(
                f"hdfs.{name} is {getattr(settings.hdfs, name)}, and the backup's files lie in {was}: give "
                f"SLUICE_HDFS__{name.upper()}={was}"
            )


def secrets_of(manifest: Manifest, backup: Path, given: Path | None) -> Path:
    """The file with the secrets. Raises SecretsMissing, WrongSecrets."""
    if given is None and not manifest.with_secrets:
        raise SecretsMissing(
            f"{backup} was taken without secrets, and without them lines cannot prove their identity: give "
            f"those of the same instance, the {own_files.SECRETS} of another backup (--secrets FILE)"
        )
    found = given or backup / own_files.SECRETS
    own_files.check_secrets(found, manifest.secrets)
    return found


def check_bytes(folder: BackupFolder, backup: Path, manifest: Manifest, say: Say) -> None:
    """Read all of the backup. Raises DamagedBackup where a byte is not as it was written."""
    done = 0
    for path, length, sha256 in _files(folder, backup, manifest):
        check_part(path, length, sha256)
        done += length
        say(f"{done // MIB:,} MiB are as they were written")


def _files(folder: BackupFolder, backup: Path, manifest: Manifest) -> Iterator[tuple[Path, int, str]]:
    for part in manifest.parts:  # the list of files among them, before it is read
        yield backup / part.path, part.bytes, part.sha256
    for each in listed(backup):
        if each.sha256:
            yield folder.pooled(each.sha256), each.bytes, each.sha256


def require_room(settings: Settings, manifest: Manifest) -> None:
    """Raise DiskTooSmall if the instance's disk has no room for the backup."""
    needed = manifest.file_bytes + sum(part.bytes for part in manifest.parts)
    above = next(path for path in settings.home.parents if path.exists())
    free = shutil.disk_usage(above).free
    if free < needed:
        raise DiskTooSmall(
            f"{above} has {free // MIB:,} MiB left, and the backup has {needed // MIB:,} MiB: make room first"
        )
