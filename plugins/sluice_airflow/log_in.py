"""Checks passwords: each costs 0.2 s of CPU on purpose, so guesses and their number at once are limited.

Whoever is no user of the instance's own is looked for in the directory (LDAP), if the settings name one.
"""

from __future__ import annotations

import math

from fastapi import HTTPException, status

from sluice.runtime.login_settings import Ldap
from sluice.runtime.origin import origin
from sluice.runtime.settings import Settings, get_settings
from sluice.runtime.throttle import Queue, QueueFull, Throttle
from sluice.stack.log import DaemonLog
from sluice.stack.users import NAME, User, Users
from sluice_airflow.provider.refusal import ProviderAway, ProviderRefusal

throttle, queue = Throttle(), Queue()
#: Those who wait for the directory: one that does not answer keeps no user of the instance's own waiting.
directory_queue = Queue(running=4)
_say = DaemonLog("log-in")


def check_password(name: str, password: str) -> User:
    """The person of that name, if the password is right. Raises HTTPException."""
    settings, source = get_settings(), origin()
    key = name if NAME.fullmatch(name) else ""  # nobody has another name
    _refuse(throttle.wait(source, key))
    try:
        with queue.place(source, throttle.knows(source, key)):
            _refuse(throttle.take(source, key))
            user = Users(settings).log_in(name, password)
        ldap = settings.login.ldap
        if user is None and ldap is not None and not _is_own(settings, key):
            with directory_queue.place(source, throttle.knows(source, key)):
                user = _in_directory(settings, ldap, source, key, password)
    except QueueFull as busy:
        raise HTTPException(
            status.HTTP_429_TOO_MANY_REQUESTS, str(busy), headers={"Retry-After": "1"}
        ) from None
    if user is None:
        raise HTTPException(status.HTTP_401_UNAUTHORIZED, "the user or the password is wrong")
    throttle.passed(source, key)
    return user


def _is_own(settings: Settings, name: str) -> bool:
    """Whether the name is one that the directory is not asked for, so that nobody gets in by it."""
    user = Users(settings).all().get(name)
    return not name or (user is not None and user.origin != "ldap")


def _in_directory(settings: Settings, ldap: Ldap, source: str, name: str, password: str) -> User | None:
    from sluice_airflow.provider import directory

    try:
        return directory.log_in(settings, ldap, name, password)
    except ProviderRefusal as error:  # the password was right
        throttle.passed(source, name)
        raise HTTPException(status.HTTP_403_FORBIDDEN, str(error)) from None
    except ProviderAway as error:
        _say(f"{source}: {str(error)!r}")  # others wrote some of it
        said = "the directory cannot be asked now; the log of airflow-api says why"
        raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, said) from None


def _refuse(wait: float) -> None:
    if wait:
        raise HTTPException(
            status.HTTP_429_TOO_MANY_REQUESTS,
            f"too many wrong passwords from here: wait {math.ceil(wait)} s",
            headers={"Retry-After": str(math.ceil(wait))},
        )
