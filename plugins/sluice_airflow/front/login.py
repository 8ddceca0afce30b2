"""Whether a request comes with a login that is valid now, before anything of its body is read."""

from __future__ import annotations

import functools
from typing import Any

import jwt
from airflow.api_fastapi.auth.tokens import JWTValidator, get_sig_validation_args
from airflow.api_fastapi.core_api.security import resolve_user_from_token
from airflow.configuration import conf
from fastapi import HTTPException
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection

from sluice_airflow.front import access_rules
from sluice_airflow.front.head import SAFE, RequestHead
from sluice_airflow.front.refused import FORBIDDEN, UNAUTHORIZED, UNAVAILABLE, RequestRefused

AWAY_SECONDS = 10
_CHALLENGE = [(b"www-authenticate", b"Bearer")]


async def check(head: RequestHead, cookie: str) -> None:
    """Raises RequestRefused without a valid login.

    cookie: the token that the request's cookie holds, or nothing.
    """
    kind, _, given = head.headers.get("authorization", "").partition(" ")
    kind = kind.lower()
    if head.path.startswith(access_rules.EXECUTION):
        await _check_task(given if kind == "bearer" else "")
        return
    if kind == "basic" and head.path == access_rules.METRICS and head.method in SAFE:
        return  # `api.basic` looks at the password
    token = given if kind == "bearer" else cookie
    if not token:
        raise RequestRefused(UNAUTHORIZED, "log in first: POST /auth/token gives a token", headers=_CHALLENGE)
    try:
        await resolve_user_from_token(token)
    except HTTPException as error:
        raise RequestRefused(error.status_code, str(error.detail), headers=_CHALLENGE) from error
    except (OperationalError, NoConnection) as error:
        again = [(b"retry-after", b"%d" % AWAY_SECONDS)]
        said = "PostgreSQL does not answer: see `sluice status`"
        raise RequestRefused(UNAVAILABLE, said, headers=again) from error


async def _check_task(token: str) -> None:
    """Raises RequestRefused unless Airflow gave this token to one of its tasks; the route sees which one."""
    if not token:
        raise RequestRefused(UNAUTHORIZED, "Missing auth token", headers=_CHALLENGE)
    try:
        await _tasks().avalidated_claims(token)
    except jwt.InvalidTokenError as error:
        raise RequestRefused(FORBIDDEN, "Invalid auth token") from error


@functools.cache
def _tasks() -> JWTValidator:
    """As Airflow's execution API makes its own."""
    arguments: dict[str, Any] = get_sig_validation_args(make_secret_key_if_needed=False)
    return JWTValidator(
        required_claims=frozenset({"aud", "exp", "iat"}),
        issuer=conf.get("api_auth", "jwt_issuer", fallback=None),
        audience=conf.get_mandatory_list_value("execution_api", "jwt_audience"),
        **arguments,
    )
