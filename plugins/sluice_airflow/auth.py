"""Who may log in to Airflow, and so to Sluice's API: the instance's users, as `sluice users` lists them.

Roles, their rights and the log-in page are those of Airflow's simple auth manager. Three things
differ: passwords are hashed, guessing is slowed down, and a user who is removed or gets another role loses
the old rights at once, not when the token expires.
"""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager
from airflow.api_fastapi.auth.managers.simple.datamodels.login import LoginBody
from airflow.api_fastapi.auth.managers.simple.services.login import SimpleAuthManagerLogin
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.configuration import conf
from fastapi import HTTPException, status

from sluice.runtime.settings import get_settings
from sluice.runtime.throttle import Throttle
from sluice.stack.users import SERVICE, User, Users
from sluice_airflow.cut_off import CutOff

throttle = Throttle()


class AuthManager(SimpleAuthManager):
    """Airflow's simple auth manager, over the instance's users."""

    def init(self) -> None:
        """Let the simple log-in page call `log_in`, and make no file of clear-text passwords."""
        BaseAuthManager.init(self)
        SimpleAuthManagerLogin.create_token = staticmethod(log_in)  # type: ignore[method-assign]

    @staticmethod
    def get_users() -> list[SimpleAuthManagerUser]:
        """Everyone who may log in."""
        return [_known(user) for user in Users(get_settings()).people()]

    def get_fastapi_middlewares(self) -> list[tuple[Any, dict[str, Any]]]:
        """The middlewares that every answer of the API server passes through."""
        return [(CutOff, {})]

    def deserialize_user(self, token: dict[str, Any]) -> SimpleAuthManagerUser:
        """The token's user with the present role. Raises ValueError if the user was removed."""
        user = Users(get_settings()).all().get(token["sub"])
        if user is None or user.role == SERVICE:
            raise ValueError("this user does not exist any more")
        return _known(user)


def log_in(
    body: LoginBody, expiration_time_in_seconds: int = conf.getint("api_auth", "jwt_expiration_time")
) -> str:
    """A token for a user who gave the right password. Raises HTTPException."""
    name = body.username
    if wait := throttle.wait(name):
        raise HTTPException(
            status.HTTP_429_TOO_MANY_REQUESTS,
            f"too many wrong passwords: wait {wait:.0f} s",
            headers={"Retry-After": f"{wait:.0f}"},
        )
    user = Users(get_settings()).log_in(name, body.password)
    if user is None:
        throttle.failed(name)
        raise HTTPException(status.HTTP_401_UNAUTHORIZED, "the user or the password is wrong")
    throttle.passed(name)
    return token_of(user, expiration_time_in_seconds)


def token_of(user: User, seconds: int) -> str:
    """A token for a user who is known to be the caller."""
    return get_auth_manager().generate_jwt(user=_known(user), expiration_time_in_seconds=seconds)


def _known(user: User) -> SimpleAuthManagerUser:
    return SimpleAuthManagerUser(username=user.name, role=user.role)
