"""What can go wrong, one class for each thing that a caller may want to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class SluiceError(Exception):
    """Anything that the client raises."""


class Unreachable(SluiceError):
    """The server does not answer: check the address, and whether the platform is up."""


class LoginRefused(SluiceError):
    """The user or the password is wrong, or was wrong too often."""


class NotAllowed(SluiceError):
    """The user's role may not do this."""


class NotFound(SluiceError):
    """There is no such task or version."""


class Busy(SluiceError):
    """The server had no room for longer than the client waits."""


class Broken(SluiceError):
    """An answer ended before its end, or is none of Sluice's."""


class SqlFailed(SluiceError):
    """The SQL endpoint refused a statement."""


class Refused(SluiceError):
    """The request is wrong; `problems` has a pointer and a message for each thing that is."""

    def __init__(self, message: str, problems: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


_KINDS: dict[int, type[SluiceError]] = {
    401: LoginRefused,
    403: NotAllowed,
    404: NotFound,
    429: Busy,
    503: Busy,
}


def of_answer(status: int, body: Any) -> SluiceError:
    """The error for an answer with this status and parsed body (None: it was no JSON)."""
    body = body if isinstance(body, dict) else {}
    problems = body.get("problems") or []
    message = "; ".join(each["message"] for each in problems) or str(body.get("detail") or f"status {status}")
    if status in _KINDS:
        return _KINDS[status](message)
    return Refused(message, problems) if status < 500 else Broken(f"{status}: {message}")  # noqa: PLR2004
