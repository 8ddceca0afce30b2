"""Other users cannot enter an instance's directory, except for PostgreSQL's account under root."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import secrets
from sluice.stack.networking import private

AS_ROOT = os.geteuid() == 0


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def settings_at(home: Path, *external: str) -> Settings:
    return Settings(instance="test", home=home, external=frozenset(external))


def test_an_open_directory_is_closed_at_the_next_start(tmp_path: Path) -> None:
    home = tmp_path / "test"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    secrets.make_missing(settings_at(home))
    assert mode(home) == (0o710 if AS_ROOT else 0o700)
    assert mode(home / "data") == mode(home)


def test_with_another_s_postgresql_not_even_its_account_may_enter(tmp_path: Path) -> None:
    private.close(settings_at(tmp_path, "postgres"))
    assert mode(tmp_path) == 0o700


@pytest.mark.skipif(not AS_ROOT, reason="only root runs PostgreSQL as another account")
def test_postgresql_s_account_may_pass_and_no_other(tmp_path: Path) -> None:
    settings = settings_at(Path("/") / "tmp" / tmp_path.name)
    try:
        private.close(settings)
        data = settings.home / "data" / "postgres"
        assert private.may_enter(private.account(settings), data)
        assert not private.may_enter(pwd.getpwnam("nobody"), data)
    finally:
        (settings.home / "data").rmdir()
        settings.home.rmdir()


@pytest.mark.skipif(not AS_ROOT, reason="only root runs PostgreSQL as another account")
def test_data_keep_their_account(tmp_path: Path) -> None:
    settings = settings_at(tmp_path)
    data = tmp_path / "data" / "postgres"
    data.mkdir(parents=True)
    assert private.account(settings).pw_name != "nobody"
    os.chown(data, pwd.getpwnam("nobody").pw_uid, -1)
    assert private.account(settings).pw_name == "nobody"


def test_nobody_is_the_last_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {each.pw_name: each for each in pwd.getpwall()}
    there = [known[name] for name in ("nobody", "daemon", "root")]
    monkeypatch.setattr(pwd, "getpwall", lambda: there)
    assert private.account(settings_at(tmp_path)).pw_name == "daemon"
    monkeypatch.setattr(pwd, "getpwall", lambda: [known["nobody"]])
    assert private.account(settings_at(tmp_path)).pw_name == "nobody"
