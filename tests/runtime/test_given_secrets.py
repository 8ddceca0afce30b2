"""Secrets that were given as environment variables, read from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.runtime import given_secrets
from sluice.runtime.settings import Settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    given_secrets.write(
        given_secrets.file(tmp_path),
        {
            "SLUICE_POSTGRES__PASSWORD": "from the file",
            "SLUICE_HIVE": '{"password": "in json"}',
            "AIRFLOW_X": "y",
        },
    )
    return tmp_path


def test_settings_read_them(home: Path) -> None:
    settings = Settings(instance="test", home=home)
    assert settings.postgres.password == "from the file"
    assert settings.hive.password == "in json"
    assert settings.hive.user == "sluice"


def test_the_environment_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_POSTGRES__PASSWORD", "from the environment")
    assert Settings(instance="test", home=home).postgres.password == "from the environment"


def test_one_process_may_have_others(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_secrets.write(tmp_path / "own", {"SLUICE_POSTGRES__PASSWORD": "its own"})
    monkeypatch.setenv(given_secrets.NAMED, str(tmp_path / "own"))
    settings = Settings(instance="test", home=home)
    assert (settings.postgres.password, settings.hive.password) == ("its own", "in json")


def test_they_are_the_owner_s_alone_and_without_any_there_is_no_file(home: Path) -> None:
    path = given_secrets.file(home)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    given_secrets.write(path, {})
    assert not path.exists()
    assert given_secrets.read(home) == {}
