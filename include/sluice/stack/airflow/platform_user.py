"""The platform's own user in Airflow, who has no password: it signs its own tokens.

Only the platform's processes and the API server can read the key. So nobody can log in as this user, no route
gives a token of it, and no wrong password locks it out. A token is made for each request and is valid for a
minute.
"""

from __future__ import annotations

import hashlib
import time

import jwt

from sluice.runtime.settings import Settings, read_secret
from sluice.stack.airflow.configuration import AUTH_MANAGER, auth_manager

#: Its name in Airflow's audit log, which no person can have.
NAME = "sluice"
#: The file of the key, in the instance's secrets.
SECRET = "airflow_platform"  # noqa: S105 - the name of the file
AUDIENCE = "sluice-platform"
SECONDS = 60
_KIND, _ALGORITHM = "sluice-platform", "HS512"
_LEEWAY_SECONDS = 10


class PlatformKeyMissing(RuntimeError):
    """The instance has no key for the platform's own user yet."""


def applies(settings: Settings) -> bool:
    """Whether the instance's Airflow knows this user: not an external one, nor with another auth manager."""
    return "airflow" not in settings.external and auth_manager(settings) == AUTH_MANAGER


def sign(settings: Settings, for_user: str = "") -> str:
    """A token for one request.

    for_user: the person for whom the platform acts, as Airflow is to record it; "" for the platform itself.
    """
    now = int(time.time())
    claims = {"sub": NAME, "aud": AUDIENCE, "iat": now, "nbf": now, "exp": now + SECONDS, "for": for_user}
    return jwt.encode(claims, _key(settings), algorithm=_ALGORITHM, headers={"kid": _KIND})


def claims_to_be(token: str) -> bool:
    """Whether the token says that the platform signed it; `check` says whether that is true."""
    try:
        return jwt.get_unverified_header(token).get("kid") == _KIND
    except jwt.InvalidTokenError:
        return False


def check(settings: Settings, token: str) -> str:
    """For whom the platform signed the token; "" for itself. Raises jwt.InvalidTokenError."""
    try:
        key = _key(settings)
    except PlatformKeyMissing as error:
        raise jwt.InvalidTokenError(str(error)) from None
    claims = jwt.decode(
        token,
        key,
        algorithms=[_ALGORITHM],
        audience=AUDIENCE,
        leeway=_LEEWAY_SECONDS,
        options={"require": ["exp", "iat", "nbf", "sub"]},
    )
    return str(claims.get("for", ""))


def _key(settings: Settings) -> bytes:
    secret = read_secret(settings.home, SECRET)
    if not secret:
        raise PlatformKeyMissing(f"{settings.home}/secrets/{SECRET} is not there: `sluice up` makes it")
    return hashlib.sha512(secret.encode()).digest()  # as long as the algorithm wants its keys
