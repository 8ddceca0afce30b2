"""Those whom an identity provider or a directory lets in: users with an origin and without a password.

Each may have a password that opens the SQL endpoint alone, for hours: the endpoint knows nothing else.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from sluice.runtime.login_settings import Role
from sluice.runtime.passwords import PasswordHash
from sluice.stack.airflow import platform_user
from sluice.stack.users import NAME, PASSWORD_BYTES, User, UserError, Users, new_generation


class Admitted(Users):
    """The users of one instance, and what becomes of those with an origin."""

    def admit(self, name: str, role: Role, origin: str, subject: str) -> tuple[User, str]:
        """The person whom an identity provider or a directory let in, and the role before ("" if new).

        The name of another person is refused: whoever had it first keeps it. Raises UserError.
        """
        if not NAME.fullmatch(name):
            raise UserError(
                f"the name {name[:60]!r} cannot be used here: names have a-z, 0-9, '.', '_' and '-', 40 at "
                "most, a letter first"
            )
        found: list[tuple[User, str]] = []

        def change(users: dict[str, User]) -> None:
            user = users.get(name)
            another = user is not None and (user.origin, user.subject) != (origin, subject)
            if another or name == platform_user.NAME:
                raise UserError(
                    f"the name {name!r} is somebody else's here. Whoever runs the platform can free it, if "
                    f"it is a person's: sluice users remove {name}"
                )
            if user is None or user.role != role:
                users[name] = User(name, role, None, new_generation(), origin, subject)
            found.append((users[name], user.role if user else ""))

        self._change(change)
        return found[0]

    def dismiss(self, name: str, origin: str, subject: str) -> str:
        """Forget that person, who has no role any more; returns the role before, "" if nobody was known."""
        found = [""]

        def change(users: dict[str, User]) -> None:
            user = users.get(name)
            if user is not None and (user.origin, user.subject) == (origin, subject):
                found[0] = users.pop(name).role

        self._change(change)
        return found[0]

    def make_sql_password(self, name: str, generation: str, until: int) -> str:
        """Give somebody with an origin a password for the SQL endpoint; returns it.

        generation: of the log-in that asks. until: when the password ends, in seconds since the epoch. Raises
        UserError.
        """
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        hashed = PasswordHash.of(password)

        def change(users: dict[str, User]) -> None:
            user = users.get(name)
            if user is None or user.generation != generation:
                raise UserError(f"{name} is logged in no longer: log in again")
            if not user.origin:
                raise UserError(f"{name} has a password here: it opens the SQL endpoint, too")
            users[name] = replace(user, password=hashed, until=until)

        self._change(change)
        return password

    def end_sql_password(self, name: str) -> None:
        """Take away the password that somebody with an origin has for the SQL endpoint."""

        def change(users: dict[str, User]) -> None:
            user = users.get(name)
            if user is not None and user.origin:
                users[name] = replace(user, password=None, until=0)

        self._change(change)
