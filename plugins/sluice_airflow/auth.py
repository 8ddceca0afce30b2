"""Who may log in to Airflow, and so to Sluice's API: the instance's users, as `sluice users` lists them, and
whom an identity provider or a directory lets in (`sluice_airflow.provider`).

Roles, their rights and the log-in page are those of Airflow's simple auth manager. Passwords are hashed, and
guessing is slowed down. A token is one of a log-in: whatever was made from it ends with it, eight hours after
the log-in at the latest, at log-out, and when the user is removed or gets another password or role.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails
from airflow.api_fastapi.auth.managers.simple.datamodels.login import LoginBody
from airflow.api_fastapi.auth.managers.simple.services.login import SimpleAuthManagerLogin
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.configuration import conf
from airflow.models.revoked_token import RevokedToken
from fastapi import HTTPException, status
from jwt import ExpiredSignatureError, InvalidTokenError

from sluice.runtime.settings import get_settings
from sluice.stack.admitted import Admitted
from sluice.stack.airflow import platform_user
from sluice.stack.users import SERVICE, User, Users
from sluice_airflow.caller import Caller
from sluice_airflow.cut_off import CutOff
from sluice_airflow.log_in import check_password

#: How long a log-in lasts.
SECONDS = conf.getint("api_auth", "jwt_expiration_time")
#: A log-in that was ended is remembered this much longer than its tokens are valid.
_MARGIN_SECONDS = 300


@dataclass(frozen=True)
class LogIn:
    """What the tokens of one log-in have in common: its id, its time, and the user's generation then."""

    id: str
    at: int  # seconds since the epoch
    generation: str


class Person(SimpleAuthManagerUser):
    """A person who logged in."""

    def __init__(self, user: User, log_in: LogIn) -> None:
        super().__init__(username=user.name, role=user.role)
        self.log_in = log_in


class PlatformUser(SimpleAuthManagerUser):
    """The platform itself, or in the name of the person for whom it acts.

    It has the rights on DAGs of the role `user`, but deletes none, and those on connections.
    """

    def __init__(self, for_user: str) -> None:
        super().__init__(username=for_user or platform_user.NAME, role="user")


class AuthManager(SimpleAuthManager):
    """Airflow's simple auth manager, over the instance's users."""

    def init(self) -> None:
        """Let the simple log-in page call `log_in`, and make no file of clear-text passwords."""
        BaseAuthManager.init(self)
        SimpleAuthManagerLogin.create_token = staticmethod(log_in)  # type: ignore[method-assign]

    @staticmethod
    def get_users() -> list[SimpleAuthManagerUser]:
        """Everyone who may log in."""
        people = Users(get_settings()).people()
        return [SimpleAuthManagerUser(username=user.name, role=user.role) for user in people]

    def get_fastapi_app(self) -> Any:
        """Airflow's log-in page and routes; before them those of an identity provider, if there is one."""
        app = super().get_fastapi_app()
        if app is not None and get_settings().login.oidc:
            from sluice_airflow.provider.routes import router

            app.router.routes[:0] = router.routes
        return app

    def get_fastapi_middlewares(self) -> list[tuple[Any, dict[str, Any]]]:
        """The middlewares that every answer of the API server passes through."""
        return [(CutOff, {}), (Caller, {})]

    async def get_user_from_token(self, token: str) -> BaseUser:
        """The token's user. Raises InvalidTokenError."""
        if platform_user.claims_to_be(token):
            return PlatformUser(platform_user.check(get_settings(), token))
        user = await super().get_user_from_token(token)
        if not isinstance(user, Person) or RevokedToken.is_revoked(user.log_in.id):
            raise ExpiredSignatureError("the user logged out")
        return user

    def deserialize_user(self, token: dict[str, Any]) -> SimpleAuthManagerUser:
        """The token's user with the present role. Raises ExpiredSignatureError if the log-in is over."""
        user = Users(get_settings()).all().get(token["sub"])
        generation, at = token.get("gen"), token.get("auth_time")
        if user is None or user.role == SERVICE or not generation or generation != user.generation:
            raise ExpiredSignatureError("the user was removed, or has another password or role")
        if user.origin and user.origin not in get_settings().login.origins:
            raise ExpiredSignatureError(f"nobody logs in by {user.origin} any more")
        if not isinstance(at, int) or at + SECONDS < time.time():
            raise ExpiredSignatureError("the log-in was too long ago")
        return Person(user, LogIn(token["sid"], at, generation))

    def serialize_user(self, user: SimpleAuthManagerUser) -> dict[str, Any]:
        """The claims of a token of the user's log-in. Raises HTTPException."""
        if not isinstance(user, Person):
            raise HTTPException(status.HTTP_403_FORBIDDEN, "no tokens are made of this one")
        log_in = user.log_in
        return {"sub": user.username, "sid": log_in.id, "auth_time": log_in.at, "gen": log_in.generation}

    def generate_jwt(self, user: SimpleAuthManagerUser, *, expiration_time_in_seconds: int = SECONDS) -> str:
        """A token that ends with the user's log-in at the latest. Raises HTTPException."""
        claims = self.serialize_user(user)
        left = claims["auth_time"] + SECONDS - int(time.time())
        valid = max(0, min(expiration_time_in_seconds, left))
        return self._get_token_signer().generate(claims, valid_for=valid)

    def revoke_token(self, token: str) -> None:
        """End the log-in of the token, and so the token and all that were made from it."""
        try:
            claims = self._get_token_validator().validated_claims(token)
            log_in, at = claims["sid"], claims["auth_time"]
        except (InvalidTokenError, KeyError):  # nothing to end
            return
        RevokedToken.revoke(log_in, datetime.fromtimestamp(at + SECONDS + _MARGIN_SECONDS, UTC))
        Admitted(get_settings()).end_sql_password(claims["sub"])

    def is_authorized_connection(
        self, *, method: Any, user: SimpleAuthManagerUser, details: ConnectionDetails | None = None
    ) -> bool:
        """Whether the user may do this to connections; the platform keeps those of the settings."""
        if isinstance(user, PlatformUser):
            return True
        return bool(super().is_authorized_connection(method=method, user=user, details=details))

    def is_authorized_dag(self, *, method: Any, user: SimpleAuthManagerUser, **asked: Any) -> bool:
        """Whether the user may do this to DAGs and their runs."""
        if isinstance(user, PlatformUser) and method == "DELETE":
            return False
        return bool(super().is_authorized_dag(method=method, user=user, **asked))


def log_in(body: LoginBody, expiration_time_in_seconds: int = SECONDS) -> str:
    """A token of a new log-in for a user who gave the right password. Raises HTTPException."""
    return token_of(check_password(body.username, body.password), expiration_time_in_seconds)


def token_of(user: User, seconds: int) -> str:
    """A token of a new log-in for a user who is known to be the caller."""
    person = Person(user, LogIn(uuid.uuid4().hex, int(time.time()), user.generation))
    return get_auth_manager().generate_jwt(user=person, expiration_time_in_seconds=seconds)
