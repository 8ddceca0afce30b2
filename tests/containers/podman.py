"""podman and podman-compose, with the settings that Debian 12 needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sluice.runtime.settings import ROOT

PROJECT = "sluice-test"
IMAGE = "localhost/sluice-test"
BASE = "localhost/sluice-base"
CONFIGURATION = Path(__file__).with_name("containers.conf")
SECONDS = 900.0
LETTERS = 4000  # of what a program said, in a message


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "CONTAINERS_CONF": str(CONFIGURATION),
        "COMPOSE_PROJECT_NAME": PROJECT,
        "SLUICE_IMAGE": IMAGE,
        "SLUICE_BASE": BASE,
    }


def run(
    argv: list[str], *, check: bool = True, seconds: float = SECONDS, given: bytes | None = None
) -> tuple[int, str, str]:
    """Run a program; returns its exit code, what it printed, and its errors.

    With ``check``, a failure is an AssertionError with what the program said.
    """
    done = subprocess.run(
        argv,
        env=environment(),
        cwd=ROOT,
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        check=False,
        timeout=seconds,
    )
    out, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if check and done.returncode:
        told = f"{out[-LETTERS:]}\n{errors[-LETTERS:]}"
        raise AssertionError(f"{' '.join(argv)[:200]}: exit code {done.returncode}\n{told}")
    return done.returncode, out, errors


def podman(*words: str, check: bool = True, seconds: float = SECONDS, given: bytes | None = None) -> str:
    """Run podman and return what it printed; ``check`` as in `run`."""
    return run(["podman", *words], check=check, seconds=seconds, given=given)[1]


def compose(*words: str) -> None:
    """Run podman-compose on docker-compose.yaml.

    It ends with 0 after some failures of podman's, so these are looked for.
    """
    _, out, errors = run([str(Path(sys.executable).with_name("podman-compose")), *words])
    assert "Error:" not in errors, f"podman-compose {' '.join(words)}\n{out[-LETTERS:]}\n{errors[-LETTERS:]}"


def container(service: str) -> str:
    """The name of the service's container."""
    return f"{PROJECT}_{service}_1"


def inside(
    service: str, *words: str, check: bool = True, seconds: float = SECONDS, given: bytes | None = None
) -> str:
    """Run a command in the service's container and return what it printed."""
    flags = ["-i"] if given is not None else []
    return podman("exec", *flags, container(service), *words, check=check, seconds=seconds, given=given)


def volumes(what: str, folder: Path, project: str = PROJECT, *, fails: bool = False) -> str:
    """Run docker/volumes.sh on the project's volumes; returns its errors."""
    given = {"ENGINE": "podman", "COMPOSE_PROJECT_NAME": project}
    argv = [str(ROOT / "docker" / "volumes.sh"), what, str(folder)]
    done = subprocess.run(argv, env={**environment(), **given}, capture_output=True, text=True, check=False)
    assert bool(done.returncode) == fails, done.stderr
    return done.stderr
