"""What an instance has in files: its secrets and keys in one tar, and what people write, as it is."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from sluice.backup.parts import BackupParts
from sluice.runtime.settings import SETTINGS_FILE, Settings, read_secret

SECRETS = "secrets.tar"
#: Below the instance's directory. The last one has hashes of passwords that Airflow's connections got.
SECRET = ("secrets", "tls", "hosts", "airflow/connections.json")
#: With these, lines prove their identity and Airflow reads its connections.
KNOWN_BY = ("identity", "airflow_fernet")
WRITTEN = "settings"


class WrongSecrets(ValueError):
    """A file has other secrets than those of the backup."""


def fingerprint(settings: Settings) -> str:
    """A hash by which the instance's secrets are known again. They are random, so it says nothing of them."""
    return _hashed([read_secret(settings.home, name) for name in KNOWN_BY])


def check_secrets(archive: Path, wanted: str) -> None:
    """Raise WrongSecrets unless the tar has an instance's secrets alone, and those of that fingerprint."""
    known = dict.fromkeys(KNOWN_BY, "")
    for name, _, data in _members(archive):
        if name.name in known and name.parts[0] == "secrets":
            known[name.name] = data.decode().strip()
    if _hashed(list(known.values())) != wanted:
        raise WrongSecrets(
            f"{archive} has not the secrets of the instance that was backed up: give the {SECRETS} of a "
            "backup of the same instance"
        )


def _hashed(known: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(["sluice backup", *known]).encode()).hexdigest()


def save_secrets(settings: Settings, parts: BackupParts) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in _secret_files(settings.home):
            tar.add(path, str(path.relative_to(settings.home)), recursive=False)
    parts.add(SECRETS, packed.getvalue())


def _secret_files(home: Path) -> Iterator[Path]:
    for name in SECRET:
        path = home / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in found if each.is_file() and not each.is_symlink())


def restore_secrets(settings: Settings, archive: Path) -> None:
    """Unpack them below the instance's directory. Raises WrongSecrets."""
    for name, mode, data in _members(archive):
        path = settings.home / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        path.write_bytes(data)
        path.chmod(mode & 0o700)


def _members(archive: Path) -> Iterator[tuple[PurePosixPath, int, bytes]]:
    """Each file's name, mode and bytes. Raises WrongSecrets at what is no secret of an instance."""
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                if not member.isfile() or name.is_absolute() or ".." in name.parts or not _known(name):
                    raise WrongSecrets(f"{archive}: {member.name} is none of an instance's secrets")
                data = tar.extractfile(member)
                yield name, member.mode, data.read() if data else b""
    except (tarfile.TarError, FileNotFoundError) as error:
        raise WrongSecrets(f"{archive} cannot be read ({error}): give the {SECRETS} of a backup") from error


def _known(name: PurePosixPath) -> bool:
    return any(name == PurePosixPath(own) or PurePosixPath(own) in name.parents for own in SECRET)


def save_written(settings: Settings, parts: BackupParts) -> None:
    """Copy what people write (settings, inventory, hosts, first tasks, metrics), and edges' generations."""
    for path in _written(settings):
        if path.is_file():
            parts.add(f"{WRITTEN}/{_place(settings, path)}", path.read_bytes())


def restore_written(settings: Settings, folder: Path, paths: Sequence[str]) -> list[str]:
    """Give the instance's directory back its files; returns the paths of those that differ elsewhere."""
    differing = []
    for path in paths:
        where, _, name = path.removeprefix(f"{WRITTEN}/").partition("/")
        data = (folder / path).read_bytes()
        if where == "instance":
            (settings.home / name).parent.mkdir(parents=True, exist_ok=True)
            (settings.home / name).write_bytes(data)
        elif not (settings.root / name).is_file() or (settings.root / name).read_bytes() != data:
            differing.append(path)
    return differing


def _written(settings: Settings) -> Iterator[Path]:
    from sluice.collection import inventory  # here: a restore imports this before it enters a network
    from sluice.collection.hosting import hosting
    from sluice.collection.position import GENERATIONS_FILE

    include = settings.root / "include"
    keys = settings.home / "hosts"  # which are among the secrets
    own = [path for path in hosting().files(settings) if not path.is_relative_to(keys)]
    metrics = sorted((settings.root / settings.metrics.path).glob("*.py"))
    first = [SETTINGS_FILE, include / "tasks.yaml", inventory.path_of(settings)]
    # Without them the lines of a name that was used again would be taken for doubles. The positions stay
    # behind: so edges send again what the backup may lack.
    generations = sorted((settings.home / "flume").glob(f"*/{GENERATIONS_FILE}"))
    yield from dict.fromkeys([*first, *own, *metrics, *generations])


def _place(settings: Settings, path: Path) -> str:
    if path.is_relative_to(settings.home):
        return f"instance/{path.relative_to(settings.home)}"
    if path.is_relative_to(settings.root):
        return f"checkout/{path.relative_to(settings.root)}"
    return f"elsewhere/{path.name}"
