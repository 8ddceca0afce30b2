"""Keeps the machine's other users out of an instance's directory.

Where root runs the platform, PostgreSQL refuses to be root and runs as another account. The two directories
above its data then let that account's group pass, and nobody else.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from pathlib import Path

from sluice.runtime.settings import Settings

#: In which order PostgreSQL's account is chosen. initdb needs one with a name. Every Debian and Red Hat has
#: `bin`, `games` and `daemon`; no service runs as the first two. `nobody` is the last, because an attacker
#: who came in through another service most likely is `nobody`.
ACCOUNTS = ("postgres", "bin", "games", "daemon", "nobody")


def close(settings: Settings) -> None:
    """Make the instance's directory, and let no other user enter it, whatever the modes below it are.

    A directory of another user is left as it is: root may look at an instance, too.
    """
    group = account(settings).pw_gid if os.geteuid() == 0 and "postgres" not in settings.external else None
    for directory in (settings.home, settings.home / "data"):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_uid != os.geteuid():
            continue
        if group is not None:
            os.chown(directory, -1, group)
        directory.chmod(0o700 if group is None else 0o710)


def account(settings: Settings) -> pwd.struct_passwd:
    """The account that root runs PostgreSQL as: the owner of its data, or the first of ACCOUNTS."""
    data = settings.home / "data" / "postgres"
    if data.exists() and (owner := data.stat().st_uid):
        with contextlib.suppress(KeyError):  # then PostgreSQL says whose its data is
            return pwd.getpwuid(owner)
    known = {each.pw_name: each for each in pwd.getpwall()}
    return next(known[name] for name in ACCOUNTS if name in known)


def may_enter(user: pwd.struct_passwd, path: Path) -> bool:
    """Whether the account may pass through every directory above the path."""

    def passes(directory: os.stat_result) -> bool:
        own_group = directory.st_gid == user.pw_gid
        return bool(directory.st_mode & (0o010 if own_group else 0o001))

    return all(passes(parent.stat()) for parent in path.resolve().parents)
