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


def test_a_generation_is_over_with_each_change_and_never_comes_back(users: Users, tmp_path: Path) -> None:
    def generation() -> str:
        return users.all()["ann"].generation

    users.add("ann", "viewer")
    seen = [generation()]
    users.set_role("ann", "viewer")
    assert generation() == seen[0]
    for change in (
        lambda: users.set_role("ann", "op"),
        lambda: users.set_password("ann"),
        lambda: (users.remove("ann"), users.add("ann", "op")),
    ):
        change()
        seen.append(generation())
    assert len(set(seen)) == 4
    (tmp_path / "secrets" / "airflow_admin").write_text("rotated")
    before = users.all()["admin"].generation
    secrets.make(Settings(instance="test", home=tmp_path))
    assert users.all()["admin"].generation not in ("", before)


def test_users_of_an_older_file_get_generations(users: Users, tmp_path: Path) -> None:
    users.add("ann", "viewer")
    file = tmp_path / "secrets" / FILE
    old = {
        name: {key: each[key] for key in each if key != "generation"}
        for name, each in json.loads(file.read_text()).items()
    }
    file.write_text(json.dumps(old))
    assert users.all()["ann"].generation == ""
    secrets.make(Settings(instance="test", home=tmp_path))
    made = {name: user.generation for name, user in users.all().items()}
    assert all(made.values())
    secrets.make(Settings(instance="test", home=tmp_path))
    assert made == {name: user.generation for name, user in users.all().items()}


def test_the_platform_s_name_is_for_no_person(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path, hive={"user": "analytics"})  # type: ignore[arg-type]
    secrets.make(settings)
    with pytest.raises(UserError, match="'sluice' is the platform's own name"):
        Users(settings).add("sluice", "viewer")
