"""Sluice on another host, which jobs need there: the platform's own files, in an environment that runs.

A version number would not tell two commits apart, so the files of Python are compared.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from sluice.collection.errors import AgentError
from sluice.collection.ssh import Link

PYTHON = ".venv/bin/python"
#: What else than the programs of every agent's host is needed to compare.
NEEDED = ("find", "sort", "xargs")
_SECONDS = 60.0
_SUM = (
    'cd "$1" 2>/dev/null || exit 0; find include/sluice jobs -name "*.py" -type f -print0 2>/dev/null | '
    "LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c 1-64"
)
_RUNS = f'cd "$1" && exec {PYTHON} -c "import sluice.archive.service, sluice.speed.driver, pyspark"'


class ReleaseError(AgentError):
    """Jobs cannot run on a host, because Sluice is not there as it must be."""


def check(link: Link, release: str, root: Path) -> None:
    """Compare the host's release with the platform's, which is in `root`.

    Raises ReleaseError, HostUnreachable, RemoteFailed.
    """
    found = link.run("sh", "-c", _SUM, "release", release, seconds=_SECONDS).strip()
    if found != checksum(root):
        raise ReleaseError(
            f"host {link.target.name}: release = {release}: that is not the platform's version of Sluice: "
            "bring the checkout there to the platform's commit, without changes, and run `make setup` in it"
        )


def check_runs(link: Link, release: str, root: Path) -> None:
    """Check also that its Python has all that a job imports."""
    check(link, release, root)
    try:
        link.run("sh", "-c", _RUNS, "release", release, seconds=_SECONDS)
    except AgentError as error:
        raise ReleaseError(
            f"host {link.target.name}: release = {release}: its {PYTHON} does not run Sluice ({error}): run "
            "`make setup` there, as the account that hosts.yaml names"
        ) from error


@functools.lru_cache(maxsize=1)
def checksum(root: Path) -> str:
    """Of the platform's own. A process keeps the code that it began with, so it is asked once."""
    done = subprocess.run(
        ["sh", "-c", _SUM, "release", str(root)], capture_output=True, text=True, timeout=_SECONDS, check=True
    )
    return done.stdout.strip()
