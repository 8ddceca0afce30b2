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
FILES = ("docker-compose.yaml", "docker/podman.yaml")
SECONDS = 900.0


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "CONTAINERS_CONF": str(CONFIGURATION),
        "COMPOSE_PROJECT_NAME": PROJECT,
        "SLUICE_IMAGE": IMAGE,
        "SLUICE_BASE": BASE,
    }


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


def compose(*words: str, seconds: float = SECONDS) -> str:
    """Run podman-compose on the project's files; a failure is an AssertionError with its words."""
    files = [word for file in FILES for word in ("-f", file)]
    argv = [str(Path(sys.executable).with_name("podman-compose")), "--in-pod", "false", *files, *words]
    done = subprocess.run(
        argv,
        env=environment(),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds,
    )
    if done.returncode:
        raise AssertionError(f"podman-compose {' '.join(words)}: {done.returncode}\n{done.stdout[-5000:]}")
    return done.stdout


def container(service: str) -> str:
    """The name of the service's container."""
    return f"{PROJECT}_{service}_1"


def inside(service: str, *words: str, check: bool = True, given: bytes | None = None) -> str:
    """Run a command in the service's container and return what it printed."""
    flags = ["-i"] if given is not None else []
    return podman("exec", *flags, container(service), *words, check=check, given=given)
