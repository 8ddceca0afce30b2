"""Secrets are made once and are the owner's alone."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from configparser import ConfigParser
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings, make_secret, read_secret
from sluice.stack import secrets
from sluice.stack.airflow.configuration import write_config
from sluice.stack.catalogue import DAEMONS
from sluice.stack.users import FILE, Users, prepare_users

#: tests/runtime/test_passwords.py tests the hashes themselves.
pytestmark = pytest.mark.usefixtures("quick_passwords")


def test_nobody_else_can_read_them(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path / "test")
    secrets.make(settings)
    directory = settings.home / "secrets"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    names = {path.name for path in directory.iterdir()}
    assert names - {"users.lock"} == {*secrets.POSTGRES, "sql", "identity", *secrets.AIRFLOW, FILE}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in directory.iterdir())


def test_they_stay_the_same(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path)
    secrets.make(settings)
    before = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    secrets.make(settings)
    assert before == {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}


def test_the_admin_and_the_platform_log_in_with_their_secrets(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path)
    secrets.make(settings)
    users = Users(settings)
    assert users.log_in("admin", read_secret(tmp_path, "airflow_admin"))
    assert users.all()["sluice"].password.is_of(read_secret(tmp_path, "sql"))
    text = (tmp_path / "secrets" / FILE).read_text()
    assert read_secret(tmp_path, "airflow_admin") not in text
    (tmp_path / "secrets" / "airflow_admin").write_text("rotated")
    secrets.make(settings)
    assert users.log_in("admin", "rotated")


def test_only_daemons_that_check_passwords_hash_them(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path)
    secrets.make_missing(settings)
    assert read_secret(tmp_path, "airflow_admin")
    assert not (tmp_path / "secrets" / FILE).exists()
    assert {name for name, daemon in DAEMONS.items() if prepare_users in daemon.prepare} == {
        "sql",
        "airflow-api",
    }


def test_airflow_can_encrypt_with_its_key(tmp_path: Path) -> None:
    from cryptography.fernet import Fernet

    settings = Settings(instance="test", home=tmp_path)
    secrets.make(settings)
    write_config(settings)
    config = ConfigParser()
    config.read(settings.home / "conf" / "airflow" / "airflow.cfg")
    key = config["core"]["fernet_key"]
    assert Fernet(key).decrypt(Fernet(key).encrypt(b"password")) == b"password"


def test_another_s_postgresql_gets_no_password_from_here(tmp_path: Path) -> None:
    secrets.make(Settings(instance="test", home=tmp_path, external=frozenset({"postgres"})))
    assert not {path.name for path in (tmp_path / "secrets").iterdir()} & set(secrets.POSTGRES)


def test_many_at_once_agree_on_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: make_secret(tmp_path, "one"), range(32)))
    assert len(made) == 1
    assert [path.name for path in (tmp_path / "secrets").iterdir()] == ["one"]
