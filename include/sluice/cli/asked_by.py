"""Who typed the command."""

from __future__ import annotations

import os
import pwd

from sluice.runtime.origin import COMMAND_LINE, set_origin

_ROOT = 0


def me() -> str:
    """`host:ann`: the user of this machine, by the kernel's word; of a command by sudo who asked for it."""
    uid = os.getuid()
    behind = os.environ.get("SUDO_USER", "") if uid == _ROOT else ""
    if behind:
        return f"host:{behind}"
    try:
        return f"host:{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"host:{uid}"


def say_where() -> None:
    """What this process changes comes from the command line; of a command by sudo it says as whom."""
    by_sudo = os.getuid() == _ROOT and bool(os.environ.get("SUDO_USER"))
    set_origin(lambda: f"{COMMAND_LINE}, as root" if by_sudo else COMMAND_LINE)
