"""An instance's secrets travel in a tar that only their own instance takes; people's files as they are."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from sluice.backup import own_files
from sluice.backup.own_files import SECRETS, WrongSecrets
from sluice.backup.parts import BackupParts
from sluice.runtime.settings import Settings, make_secret
from tests.backup import stores


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = stores.instance(tmp_path / "old")
    for name in own_files.KNOWN_BY:
        make_secret(made.home, name)
    (made.home / "tls").mkdir()
    (made.home / "tls" / "doors.key").write_text("key")
    (made.home / "airflow").mkdir()
    (made.home / "airflow" / "connections.json").write_text("{}")
    (made.home / "airflow" / "airflow.cfg").write_text("")
    (made.home / "logs").mkdir()
    return made


def test_secrets_come_back_with_their_modes(settings: Settings, tmp_path: Path) -> None:
    parts = BackupParts(tmp_path / "backup")
    own_files.save_secrets(settings, parts)
    packed = tmp_path / "backup" / SECRETS
    assert packed.stat().st_mode & 0o077 == 0
    own_files.check_secrets(packed, own_files.fingerprint(settings))
    back = stores.instance(tmp_path / "new")
    back.home.mkdir(parents=True)
    own_files.restore_secrets(back, packed)
    found = {path.relative_to(back.home) for path in back.home.rglob("*") if path.is_file()}
    assert found == {
        Path("secrets/identity"),
        Path("secrets/airflow_fernet"),
        Path("tls/doors.key"),
        Path("airflow/connections.json"),
    }
    for path in found:
        assert (back.home / path).read_bytes() == (settings.home / path).read_bytes()
        assert (back.home / path).stat().st_mode & 0o077 == 0
    assert own_files.fingerprint(back) == own_files.fingerprint(settings)


def test_secrets_of_another_instance_are_refused(settings: Settings, tmp_path: Path) -> None:
    parts = BackupParts(tmp_path / "backup")
    own_files.save_secrets(settings, parts)
    with pytest.raises(WrongSecrets, match="not the secrets of the instance"):
        own_files.check_secrets(tmp_path / "backup" / SECRETS, "another")


@pytest.mark.parametrize("name", ["/etc/passwd", "secrets/../../x", "bin/run", "secretsx/a"])
def test_a_tar_with_anything_else_is_refused(settings: Settings, tmp_path: Path, name: str) -> None:
    packed = tmp_path / SECRETS
    with tarfile.open(packed, "w") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(WrongSecrets, match="none of an instance's secrets"):
        own_files.check_secrets(packed, own_files.fingerprint(settings))


def test_what_is_no_tar_is_refused(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / SECRETS).write_text("text")
    for path in (tmp_path / SECRETS, tmp_path / "missing"):
        with pytest.raises(WrongSecrets, match="cannot be read"):
            own_files.check_secrets(path, own_files.fingerprint(settings))


def test_the_instance_s_own_files_come_back_and_those_of_the_checkout_are_compared(
    settings: Settings, tmp_path: Path
) -> None:
    (settings.home / "collection.yaml").write_text("topic: logs")
    edge = settings.home / "flume" / "web1"
    edge.mkdir(parents=True)
    for name in ("generations.json", "position.json"):
        (edge / name).write_text("{}")
    include = settings.root / "include"
    include.mkdir(parents=True)
    (include / "tasks.yaml").write_text("[]")
    parts = BackupParts(tmp_path / "backup")
    own_files.save_written(settings, parts)
    paths = [part.path for part in parts.found]
    assert {"settings/instance/collection.yaml", "settings/checkout/include/tasks.yaml"} <= set(paths)
    assert [path for path in paths if "flume" in path] == ["settings/instance/flume/web1/generations.json"]
    back = stores.instance(tmp_path / "new")
    back.home.mkdir(parents=True)
    wanted = ["settings/instance/collection.yaml", "settings/checkout/include/tasks.yaml"]
    assert own_files.restore_written(back, tmp_path / "backup", wanted) == wanted[1:]
    assert (back.home / "collection.yaml").read_text() == "topic: logs"
    (back.root / "include").mkdir()
    (back.root / "include" / "tasks.yaml").write_text("[]")
    assert own_files.restore_written(back, tmp_path / "backup", wanted) == []
