"""Who may do what: Airflow says who asks, and the rights are those on its DAGs.

Reading needs the right to read DAGs, and writing needs the right to edit them. In Airflow's simple auth
manager these are the roles from viewer up and from user up. The lines of the live topic hold personal data,
so a trial on them needs the right to write.
"""

from __future__ import annotations

from typing import Annotated, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, HTTPException, Request, status
from jwt import InvalidTokenError

from sluice.runtime.throttle import Rate

#: The limit on each user's trials and comparisons of tasks, which parse and count.
PER_MINUTE = 60
RATE = Rate(PER_MINUTE)


def may(method: Literal["GET", "PUT"], user: BaseUser) -> bool:
    """Whether the user may read (GET) or edit (PUT) all DAGs."""
    return get_auth_manager().is_authorized_dag(method=method, user=user)


def operates(user: BaseUser) -> bool:
    """Whether the user looks after what others run and change: ops and admins, who may edit connections."""
    return get_auth_manager().is_authorized_connection(method="PUT", user=user)


def reader(user: GetUserDep) -> BaseUser:
    """The logged-in user, who may read."""
    if not may("GET", user):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "you may not read DAGs, so not Sluice's tasks either")
    return user


def writer(user: GetUserDep) -> BaseUser:
    """The logged-in user, who may write."""
    if not may("PUT", user):
        raise HTTPException(
            status.HTTP_403_FORBIDDEN,
            "you may not edit DAGs, so you may not do this: ask for a role that may, e.g. user",
        )
    return user


async def session_lasts(request: Request) -> bool:
    """Whether the token that came with the request still is one of a user who may read."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        token = request.cookies.get(COOKIE_NAME_JWT_TOKEN, "")
    try:
        user = await get_auth_manager().get_user_from_token(token)
    except InvalidTokenError:  # it is too old, or its user was removed
        return False
    return may("GET", user)


def unhurried(user: Annotated[BaseUser, Depends(reader)]) -> BaseUser:
    """The logged-in user, who may read and does not ask for expensive answers too often."""
    if wait := RATE.take(user.get_name()):
        raise HTTPException(
            status.HTTP_429_TOO_MANY_REQUESTS,
            f"at most {PER_MINUTE} of these a minute: wait {wait:.0f} s",
            headers={"Retry-After": f"{max(wait, 1):.0f}"},
        )
    return user


Reader = Annotated[BaseUser, Depends(reader)]
UnhurriedReader = Annotated[BaseUser, Depends(unhurried)]
Writer = Annotated[BaseUser, Depends(writer)]
