"""The file of users is its owner's alone, holds no password, and keeps the platform's users."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import secrets
from sluice.stack.users import FILE, UserError, Users

#: tests/runtime/test_passwords.py tests the hashes themselves.
pytestmark = pytest.mark.usefixtures("quick_passwords")


@pytest.fixture
def users(tmp_path: Path) -> Users:
    settings = Settings(instance="test", home=tmp_path)
    secrets.make(settings)
    return Users(settings)


def test_a_user_logs_in_until_removed(users: Users, tmp_path: Path) -> None:
    password = users.add("ann", "viewer")
    found = users.log_in("ann", password)
    assert found is not None
    assert (found.name, found.role) == ("ann", "viewer")
    assert users.log_in("ann", password + "x") is None
    assert users.log_in("bob", password) is None
    users.set_role("ann", "op")
    assert [(user.name, user.role) for user in users.people()] == [("admin", "admin"), ("ann", "op")]
    other = users.set_password("ann")
    assert users.log_in("ann", password) is None
    assert users.log_in("ann", other) is not None
    users.remove("ann")
    assert users.log_in("ann", other) is None
    file = tmp_path / "secrets" / FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_file_has_no_password(users: Users, tmp_path: Path) -> None:
    password = users.add("ann", "viewer")
    text = (tmp_path / "secrets" / FILE).read_text()
    assert password not in text
    assert json.loads(text)["ann"]["rounds"] >= 600_000


@pytest.mark.parametrize("name", ["", "Ann", "a b", "a/b", "-a", "a" * 41, "ann\n", "<script>"])
def test_a_bad_name_is_refused(users: Users, name: str) -> None:
    with pytest.raises(UserError, match="use a-z, 0-9"):
        users.add(name, "viewer")


def test_what_cannot_be_done_is_said(users: Users) -> None:
    users.add("ann", "viewer")
    with pytest.raises(UserError, match="there is a user 'ann' already"):
        users.add("ann", "admin")
    with pytest.raises(UserError, match="there is no user 'bob': there are admin, ann"):
        users.remove("bob")
    for own in ("admin", "sluice"):
        with pytest.raises(UserError):
            users.remove(own)
    assert set(users.all()) == {"admin", "ann", "sluice"}


def test_many_changes_at_once_are_all_kept(users: Users) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: users.add(f"u{n}", "viewer"), range(8)))
    assert {f"u{n}" for n in range(8)} <= set(users.all())
