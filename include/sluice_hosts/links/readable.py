"""Whether the account on another host may list and read the log files of a front-end there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from sluice.collection.pattern import Pattern
from sluice_hosts.links.ssh import RemoteFailed, SshLink

_HOW = "docs/hosts.md says how"


def check(link: SshLink, front_end: str, patterns: Iterable[Pattern]) -> int:
    """Open each file that matches; returns how many there are.

    Raises RemoteFailed, which names a file and the remedy, and HostUnreachable.
    """
    at, user = link.target.name, link.target.user
    files: list[PurePath] = []
    for pattern in patterns:
        folder = PurePath(pattern.directory)
        try:
            found = link.sizes(folder)
        except RemoteFailed as error:
            raise RemoteFailed(f"{front_end}: {error}: give {user} r and x on it ({_HOW})") from error
        if found is None:
            raise RemoteFailed(
                f"{front_end}: {folder} on {at} is no directory: make it, give the account r and x on it, or "
                "correct `files`"
            )
        files += [folder / name for name in sorted(found) if pattern.matches(name)]
    if refused := link.refused(files):
        path, said = next(iter(refused.items()))
        more = f", nor can {len(refused) - 1} more" if len(refused) > 1 else ""
        raise RemoteFailed(
            f"{front_end}: {path} on {at} cannot be read ({said}){more}: give {user} the right to read it, "
            f"and the files that are still to come in {path.parent} ({_HOW})"
        )
    return len(files)
