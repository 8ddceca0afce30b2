"""Sluice on another host, which jobs need there: the platform's own files, in an environment that runs.

A version number would not tell two commits apart, so the files of Python are compared, and requirements.txt.
The host's Python says whether it has what that names.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from sluice.collection.errors import AgentError
from sluice_hosts.links.ssh import RemoteFailed, SshLink

PYTHON = ".venv/bin/python"
#: What else than the programs of every agent's host is needed to compare.
NEEDED = ("find", "sort", "xargs")
_SECONDS = 60.0
_SUM = (
    'cd "$1" 2>/dev/null || exit 0; find include/sluice include/sluice_hosts jobs requirements.txt '
    '"(" -name "*.py" -o -name requirements.txt ")" -type f -print0 2>/dev/null | '
    "LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c 1-64"
)
_INSTALLED = "from sluice.runtime.installed import show; show()"
_IMPORTS = "import sluice.archive.service, sluice.speed.driver, pyspark"
#: The most packages that are named.
_NAMED = 5


class ReleaseError(AgentError):
    """Jobs cannot run on a host, because Sluice is not there as it must be."""


def check(link: SshLink, release: str, root: Path) -> None:
    """Compare the host's release and its packages with the platform's, which is in `root`.

    Raises ReleaseError, HostUnreachable, RemoteFailed.
    """
    found = link.run("sh", "-c", _SUM, "release", release, seconds=_SECONDS).strip()
    if found != checksum(root):
        raise ReleaseError(
            f"host {link.target.name}: release = {release}: that is not the platform's version of Sluice: "
            "bring the checkout there to the platform's commit, without changes, and run `make setup` in it"
        )
    if differing := _python(link, release, _INSTALLED).splitlines():
        more = f", and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
        raise ReleaseError(
            f"host {link.target.name}: release = {release}: its packages are not those of requirements.txt "
            f"({', '.join(differing[:_NAMED])}{more}): run `make setup` there"
        )


def check_runs(link: SshLink, release: str, root: Path) -> None:
    """Check also that its Python has all that a job imports."""
    check(link, release, root)
    _python(link, release, _IMPORTS)


def _python(link: SshLink, release: str, code: str) -> str:
    """What the host's Python prints. Raises ReleaseError if it cannot run the code."""
    script = f'cd "$1" && exec {PYTHON} -c "$2"'
    try:
        return link.run("sh", "-c", script, "release", release, code, seconds=_SECONDS)
    except RemoteFailed as error:
        raise ReleaseError(
            f"host {link.target.name}: release = {release}: its {PYTHON} does not run Sluice ({error}): run "
            "`make setup` there, as the account that hosts.yaml names"
        ) from error


@functools.lru_cache(maxsize=1)
def checksum(root: Path) -> str:
    """Of the platform's own. A process keeps the code that it began with, so it is asked once."""
    return _of_now(root)


def outdated(root: Path) -> bool:
    """Whether the platform's files have changed since this process asked for their checksum."""
    return _of_now(root) != checksum(root)


def _of_now(root: Path) -> str:
    done = subprocess.run(
        ["sh", "-c", _SUM, "release", str(root)], capture_output=True, text=True, timeout=_SECONDS, check=True
    )
    return done.stdout.strip()
