"""podman, with the settings that Debian 12 needs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from sluice.runtime.settings import ROOT

IMAGE = "localhost/sluice-test"
BASE = "localhost/sluice-base"
CONFIGURATION = Path(__file__).with_name("containers.conf")
SECONDS = 900.0


def environment() -> dict[str, str]:
    return {**os.environ, "CONTAINERS_CONF": str(CONFIGURATION)}


def podman(*words: str, check: bool = True, seconds: float = SECONDS, given: bytes | None = None) -> str:
    """Run podman and return what it printed.

    With ``check``, a failure is an AssertionError with what podman said.
    """
    done = subprocess.run(
        ["podman", *words],
        env=environment(),
        cwd=ROOT,
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        check=False,
        timeout=seconds,
    )
    out = done.stdout.decode(errors="replace")
    if check and done.returncode:
        raise AssertionError(
            f"podman {' '.join(words)[:200]}: {done.returncode}\n{out[-3000:]}\n"
            f"{done.stderr.decode(errors='replace')[-3000:]}"
        )
    return out
