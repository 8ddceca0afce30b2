"""The platform of docker-compose.yaml, brought up with podman-compose: its health, its lines, its deaths."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from typing import Any

import psutil
import yaml

from sluice.runtime.settings import ROOT
from sluice.stack.memory import proportional_bytes
from sluice_lab.waiting import until
from tests.containers.podman import PROJECT, compose, container, inside, podman, run

SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
CHECKED = tuple(name for name, service in SERVICES.items() if "healthcheck" in service)
#: `initialise` ends; the others run for ever.
FOR_EVER = tuple(name for name in SERVICES if name != "initialise")
#: Where the tests run `sluice`: no other service needs this one, so none of the tests kills it.
HERE = "watch"
HEALTHY_SECONDS = 900.0
SETTLE_SECONDS = 900.0
POLL_SECONDS = 3.0


def up() -> float:
    """Start every service; returns the seconds until all are healthy and the instance is filled."""
    began = time.monotonic()
    compose("up", "-d", "--no-build")
    wait_healthy()
    until(filled, HEALTHY_SECONDS, _filling, POLL_SECONDS)
    return time.monotonic() - began


def down(*options: str) -> float:
    """Stop and remove the containers, not the volumes; returns the seconds."""
    began = time.monotonic()
    compose("down", *options)
    return time.monotonic() - began


def remove() -> None:
    """Remove containers, volumes and networks, as far as they are there."""
    with suppress(AssertionError):
        compose("down", "-v", "-t", "5")
    left = podman("volume", "ls", "-q", "--filter", f"name={PROJECT}_").split()
    assert not left, f"`down -v` does not delete these volumes: podman volume rm {' '.join(left)}"


def unhealthy() -> dict[str, str]:
    """What each service lacks that is not healthy, by the check of the compose file itself."""
    found = {}
    for service in CHECKED:
        command = SERVICES[service]["healthcheck"]["test"][1:]
        code, said, errors = run(["podman", "exec", container(service), *command], check=False)
        if code:
            found[service] = (said.strip() or errors.strip())[-500:]
    return found


def wait_healthy() -> float:
    """Wait until every service is healthy; returns the seconds."""
    began = time.monotonic()
    until(lambda: not unhealthy(), HEALTHY_SECONDS, unhealthy, POLL_SECONDS)
    return time.monotonic() - began


def filled() -> bool:
    """Whether `initialise` came to its end."""
    found = state("initialise")
    return not found["Running"] and found["ExitCode"] == 0


def _filling() -> str:
    return podman("logs", "--tail", "20", container("initialise"), check=False)


def state(service: str) -> dict[str, Any]:
    """The state of the service's container, as podman knows it."""
    return dict(json.loads(podman("inspect", container(service)))[0]["State"])


def sluice(*words: str, check: bool = True) -> str:
    """Run a command of the platform and return what it printed."""
    return inside(HERE, "sluice", *words, check=check)


def hops() -> dict[str, Any]:
    """The audit; while daemons are away it may fail, and then it has one thing in flight: its words."""
    said = sluice("audit", "--format", "json", check=False)
    with suppress(ValueError):
        return dict(json.loads(said))
    return {"counts": {}, "in_flight": [said[-500:]]}


def wait_counted(lines: int) -> None:
    """Wait until exactly so many lines were read, all are counted once and archived."""
    found: dict[str, Any] = {}

    def counted() -> bool:
        found.clear()
        found.update(hops())
        return not [waits for waits in found["in_flight"] if "nightly_batch" not in waits]

    until(counted, SETTLE_SECONDS, lambda: found, POLL_SECONDS)
    counts = found["counts"]
    assert counts["lost"] == 0, found
    assert counts["lines_read"] == lines, found
    assert counts["online"] + counts["dead_lettered"] == lines, found
    assert counts["archived"] == lines + counts["doubled"], found


def kill(service: str) -> None:
    """Kill the container's first process, and with it all of them, as the kernel does for lack of memory."""
    pid = int(state(service)["Pid"])
    if pid:  # 0: it is being started again
        os.kill(pid, signal.SIGKILL)


def memory_bytes(service: str) -> int:
    """The memory (PSS) of the container's processes, agents and jobs among them."""
    first = psutil.Process(int(state(service)["Pid"]))
    return sum(proportional_bytes(process.pid) for process in (first, *first.children(recursive=True)))
