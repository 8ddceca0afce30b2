"""The origin of the present request or command: limits go by it, and the history records it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

#: For what nobody asked for: daemons and jobs.
PLATFORM = "platform"
COMMAND_LINE = "command line"
_LOOK: ContextVar[Callable[[], str] | None] = ContextVar("origin", default=None)


def origin() -> str:
    """The user of this machine (`uid:1000`), an address, `command line` or `platform`."""
    look = _LOOK.get()
    return PLATFORM if look is None else look()


def set_origin(look: Callable[[], str]) -> None:
    """Say where this request or command comes from; `look` is called when somebody asks."""
    _LOOK.set(look)
