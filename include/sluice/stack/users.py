"""The people who may log in to an instance: in Airflow's pages, the REST API and the SQL endpoint.

One file of mode 0600, ``secrets/users.json``, holds each one's name, role, password hash and *generation*: a
random text that is another one after each new password or role, and for another person of the same name. What
a user was given before, such as a token, names the generation and ends with it. The file also holds the
platform's own user, with which its jobs log in to the SQL endpoint, because the endpoint reads no other file.

It also holds whoever logged in by an identity provider or a directory (`runtime.login_settings`): where they
come from (the *origin*) and what that calls them (the *subject*). Such a person may have a password that
opens the SQL endpoint alone, for hours.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from filelock import FileLock

from sluice.runtime.files import write_whole
from sluice.runtime.login_settings import Role
from sluice.runtime.passwords import ROUNDS, SECRET_ROUNDS, PasswordHash
from sluice.runtime.settings import Settings, read_secret
from sluice.stack.airflow import platform_user

#: The role of the platform's own user, which cannot log in to Airflow.
SERVICE = "service"
FILE = "users.json"
NAME = re.compile(r"[a-z][a-z0-9._-]{0,39}")
PASSWORD_BYTES = 15
_GENERATION_BYTES = 12


class UserError(ValueError):
    """The requested change of the users is not possible; the message says why."""


@dataclass(frozen=True)
class User:
    """A user with the password's hash."""

    name: str
    role: str
    password: PasswordHash | None  # of somebody with an origin: for the SQL endpoint alone
    generation: str = ""  # of a file of before there were any; `ensure_own` gives one
    origin: str = ""  # oidc, ldap; empty for a user of the instance's own
    subject: str = ""  # the same person has the same one there, whatever the name
    until: int = 0  # when the password of somebody with an origin ends, in seconds since the epoch


class Users:
    """The users of one instance. Each call reads the file; changes wait for one another."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.home / "secrets" / FILE
        self._admin, self._service = settings.airflow.user, settings.hive.user

    def all(self) -> dict[str, User]:
        """Every user by name, the platform's own included."""
        if not self._path.exists():
            return {}
        found = json.loads(self._path.read_text())
        return {
            name: User(
                name,
                each["role"],
                PasswordHash(each["salt"], each["rounds"], each["hash"]) if "hash" in each else None,
                each.get("generation", ""),
                each.get("origin", ""),
                each.get("subject", ""),
                each.get("until", 0),
            )
            for name, each in found.items()
        }

    def people(self) -> list[User]:
        """Those who may log in to Airflow, by name."""
        return sorted(
            (user for user in self.all().values() if user.role != SERVICE), key=lambda user: user.name
        )

    def role(self, name: str) -> str:
        """The role of that name; empty if there is no such user."""
        user = self.all().get(name)
        return "" if user is None else user.role

    def log_in(self, name: str, password: str) -> User | None:
        """The person of that name if the password is right; an unknown name takes just as long."""
        user = self.all().get(name)
        if user is not None and user.role != SERVICE and user.password is not None and not user.origin:
            return user if user.password.is_of(password) else None
        _NOBODY.is_of(password)
        return None

    def add(self, name: str, role: Role) -> str:
        """Add a person; returns the password, which is kept nowhere. Raises UserError."""
        if not NAME.fullmatch(name):
            raise UserError(f"user {name!r}: use a-z, 0-9, '.', '_' and '-', 40 at most, a letter first")
        password = secrets.token_urlsafe(PASSWORD_BYTES)

        def change(users: dict[str, User]) -> None:
            if name in users:
                raise UserError(f"there is a user {name!r} already: choose another name")
            if name == platform_user.NAME:
                raise UserError(f"{name!r} is the platform's own name in Airflow: choose another one")
            users[name] = User(name, role, PasswordHash.of(password), new_generation())

        self._change(change)
        return password

    def set_role(self, name: str, role: Role) -> None:
        """Give a person another role. Raises UserError."""

        def changed(user: User) -> User:
            _require_own(user, "role")
            return user if user.role == role else replace(user, role=role, generation=new_generation())

        self._change_person(name, changed)

    def set_password(self, name: str) -> str:
        """Give a person a new password; returns it. Raises UserError."""
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        hashed = PasswordHash.of(password)

        def changed(user: User) -> User:
            _require_own(user, "password")
            return replace(user, password=hashed, generation=new_generation())

        self._change_person(name, changed)
        return password

    def remove(self, name: str) -> None:
        """Remove a person. Raises UserError."""
        self._change_person(name, lambda user: None)

    def ensure_own(self, settings: Settings) -> None:
        """Give the platform's own user and the admin the passwords in the instance's secrets.

        Users of a file of before there were generations get one each. Those of an origin that the settings
        name no more lose the password that they have.
        """
        own = {
            self._service: (SERVICE, read_secret(settings.home, "sql"), SECRET_ROUNDS),
            self._admin: ("admin", read_secret(settings.home, "airflow_admin"), ROUNDS),
        }

        def change(users: dict[str, User]) -> None:
            for name, (role, password, rounds) in own.items():
                known = users[name].password if name in users else None
                if password and not (known and known.is_of(password)):
                    users[name] = User(name, role, PasswordHash.of(password, rounds), new_generation())
            for name, user in users.items():
                if not user.generation:
                    users[name] = replace(user, generation=new_generation())
                if user.password and user.origin and user.origin not in settings.login.origins:
                    users[name] = replace(user, password=None, until=0)

        self._change(change)

    def _change_person(self, name: str, changed: Callable[[User], User | None]) -> None:
        if name == self._admin:
            raise UserError(f"{name} is the platform's own admin, with the password in secrets/airflow_admin")

        def change(users: dict[str, User]) -> None:
            user = users.pop(name, None)
            if user is None or user.role == SERVICE:
                known = ", ".join(each for each in sorted(users) if users[each].role != SERVICE)
                raise UserError(f"there is no user {name!r}: there are {known}")
            if (now := changed(user)) is not None:
                users[name] = now

        self._change(change)

    def _change(self, change: Callable[[dict[str, User]], None]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self._path.with_suffix(".lock"), mode=0o600):
            before = self.all()
            users = dict(before)
            change(users)
            if users != before:
                rows = {name: _row(user) for name, user in users.items()}
                write_whole(self._path, json.dumps(rows, indent=1), 0o600)


def prepare_users(settings: Settings) -> None:
    """Let the platform's own users log in: a step of what checks passwords, because it takes 0.2 s of CPU."""
    Users(settings).ensure_own(settings)


def _row(user: User) -> dict[str, object]:
    there = {"origin": user.origin, "subject": user.subject, "until": user.until} if user.origin else {}
    return {
        "role": user.role,
        "generation": user.generation,
        **there,
        **(asdict(user.password) if user.password else {}),
    }


def _require_own(user: User, what: str) -> None:
    if user.origin:
        raise UserError(
            f"{user.name} logs in by {user.origin}, which decides on the {what}: change it there. "
            f"`sluice users remove {user.name}` ends what {user.name} is logged in to"
        )


def new_generation() -> str:
    """Another one than any before."""
    return secrets.token_hex(_GENERATION_BYTES)


#: Compared with when there is no such person, so that the time does not tell who exists.
_NOBODY = PasswordHash("00" * 16, ROUNDS, "00" * 32)
