"""Checks passwords: each costs 0.2 s of CPU on purpose, so guesses and their number at once are limited."""

from __future__ import annotations

import math

from fastapi import HTTPException, status

from sluice.runtime.origin import origin
from sluice.runtime.settings import get_settings
from sluice.runtime.throttle import Busy, Queue, Throttle
from sluice.stack.users import NAME, User, Users

throttle, queue = Throttle(), Queue()


def check_password(name: str, password: str) -> User:
    """The person of that name, if the password is right. Raises HTTPException."""
    source, key = origin(), name if NAME.fullmatch(name) else ""  # nobody has another name
    _refuse(throttle.wait(source, key))
    try:
        with queue.place(source, throttle.knows(source, key)):
            _refuse(throttle.take(source, key))
            user = Users(get_settings()).log_in(name, password)
    except Busy as busy:
        raise HTTPException(
            status.HTTP_429_TOO_MANY_REQUESTS, str(busy), headers={"Retry-After": "1"}
        ) from None
    if user is None:
        raise HTTPException(status.HTTP_401_UNAUTHORIZED, "the user or the password is wrong")
    throttle.passed(source, key)
    return user


def _refuse(wait: float) -> None:
    if wait:
        raise HTTPException(
            status.HTTP_429_TOO_MANY_REQUESTS,
            f"too many wrong passwords from here: wait {math.ceil(wait)} s",
            headers={"Retry-After": str(math.ceil(wait))},
        )
