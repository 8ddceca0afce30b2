"""Those whom a provider or a directory lets in: no password here, a name of their own, an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import secrets
from sluice.stack.admitted import Admitted
from sluice.stack.users import UserError

#: tests/runtime/test_passwords.py tests the hashes themselves.
pytestmark = pytest.mark.usefixtures("quick_passwords")


@pytest.fixture
def users(tmp_path: Path) -> Admitted:
    settings = Settings(instance="test", home=tmp_path)
    secrets.make(settings)
    return Admitted(settings)


def test_whom_a_provider_lets_in_has_no_password_here_and_keeps_the_name(users: Admitted) -> None:
    ann, before = users.admit("ann", "viewer", "oidc", "1")
    assert (before, ann.role, ann.origin, ann.password) == ("", "viewer", "oidc", None)
    assert users.admit("ann", "viewer", "oidc", "1") == (ann, "viewer")  # nothing ends
    for password in ("", "x"):
        assert users.log_in("ann", password) is None
    for origin, subject in (("oidc", "2"), ("ldap", "1")):
        with pytest.raises(UserError, match="somebody else's"):
            users.admit("ann", "admin", origin, subject)
        assert users.dismiss("ann", origin, subject) == ""
    for change in (lambda: users.set_role("ann", "op"), lambda: users.set_password("ann")):
        with pytest.raises(UserError, match="ann logs in by oidc"):
            change()
    with pytest.raises(UserError, match="already"):
        users.add("ann", "viewer")
    promoted, before = users.admit("ann", "op", "oidc", "1")
    assert (before, promoted.role) == ("viewer", "op")
    assert promoted.generation != ann.generation
    assert users.dismiss("ann", "oidc", "1") == "op"
    assert "ann" not in users.all()


@pytest.mark.parametrize("name", ["admin", "sluice", "bob"])
def test_a_name_of_the_instance_s_own_is_for_no_provider_s_person(users: Admitted, name: str) -> None:
    users.add("bob", "viewer")
    before = users.all()
    for origin in ("oidc", "ldap"):
        with pytest.raises(UserError, match="somebody else's"):
            users.admit(name, "admin", origin, "1")
    assert users.all() == before


def test_a_password_for_sql_opens_nothing_else_and_ends(users: Admitted, tmp_path: Path) -> None:
    users.add("bob", "viewer")
    ann, _ = users.admit("ann", "viewer", "oidc", "1")
    password = users.make_sql_password("ann", ann.generation, 2_000_000_000)
    kept = users.all()["ann"]
    assert kept.password is not None
    assert kept.password.is_of(password)
    assert kept.generation == ann.generation
    assert users.log_in("ann", password) is None
    for name, generation in (("ann", "another"), ("eve", ann.generation)):
        with pytest.raises(UserError, match="log in again"):
            users.make_sql_password(name, generation, 2_000_000_000)
    with pytest.raises(UserError, match="has a password here"):
        users.make_sql_password("bob", users.all()["bob"].generation, 2_000_000_000)
    users.admit("ann", "op", "oidc", "1")
    assert users.all()["ann"].password is None
    users.make_sql_password("ann", users.all()["ann"].generation, 2_000_000_000)
    secrets.make(Settings(instance="test", home=tmp_path))  # whose settings name no provider
    assert users.all()["ann"].password is None
    before = users.all()
    users.end_sql_password("bob")
    assert users.all() == before
