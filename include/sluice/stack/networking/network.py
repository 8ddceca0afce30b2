"""The network in which an instance runs: its own, or the host's.

In a network of its own (`Settings.private`) nobody but the instance's user and root reaches its daemons; the
gateway opens doors to the host's network. docs/decisions/0013-a-network-of-its-own.md says why. Every process
that talks to a daemon has to be inside: the daemons, their jobs, and commands such as `sluice results`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from filelock import FileLock

from sluice.runtime import detached, inherited, namespace
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings, given
from sluice.stack import jars
from sluice.stack.networking import ports
from sluice.stack.preflight import SYSCTLS

GATEWAY = "gateway"
READY = "ready.pid"  # the relaying process, once it is inside
INSIDE = "inside.pid"  # the same, once the gateway keeps its network
ORDERS = "orders.json"  # what the gateway is to do
LOCK = "opening.lock"
RELAYING = "sluice.stack.networking.doors"
OUTWARD = "sluice.stack.networking.outward"
#: Processes inside have it: the instance whose network they are in.
MARK = "SLUICE_INSIDE"
OPEN_SECONDS = 30.0
POLL_SECONDS = 0.05


class NetworkNotOpened(RuntimeError):
    """The instance's network could not be made."""


class OrdersChanged(RuntimeError):
    """The settings want other doors than those with which the instance runs."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(
            f"{', '.join(names)}: the instance was started with another value. Stop it first: `sluice down`"
        )


def folder(settings: Settings) -> Path:
    """The gateway's records and log. Beside the instance's directory, because `reset` deletes that."""
    return settings.home.with_name(f".{settings.home.name}.network")


def open_and_enter(settings: Settings, say: Callable[[str], None]) -> None:
    """Fetch the jars that are missing, from the host's network; then open the instance's own and enter it.

    If the instance runs already, enter the network in which it runs.
    Raises JarsMissing, NetworkNotOpened, OrdersChanged, PortInUse, NoNamespace.
    """
    if stale := jars.stale():
        say(f"resolving the jars of {', '.join(stale)}")
        jars.resolve()
    with of_supervisor(settings) as running:
        if running:
            _compare(settings)
            enter(settings)
            return
    if settings.private or settings.notifications.given:
        _open(settings, orders(settings))
    if settings.private:
        with namespace.of_process(_inside(settings), RELAYING) as network:
            if network is None:
                raise NetworkNotOpened("the relaying process ended while it was asked: try again")
            _join(settings, network)


def enter(settings: Settings) -> None:
    """Enter the network in which the instance runs; do nothing if it does not run.

    A gateway that died is started again with its old orders; if it cannot, its doors stay shut, which is said
    but hinders nothing else. Raises NoNamespace.
    """
    with of_supervisor(settings) as network:
        if network is None or (namespace.here(network) and MARK in os.environ):
            return
        try:
            if before := _read_orders(settings):
                _open(settings, before)
        except Exception as error:
            # Whatever it is: commands such as `sluice down` must go on.
            sys.stderr.write(f"sluice: the doors of instance {settings.instance} are shut: {error}\n")
        if not namespace.here(network):
            _join(settings, network)


def close(settings: Settings) -> None:
    """Stop the gateway; the network ends with the last process that is in it."""
    run = folder(settings)
    if not run.exists():
        return
    with FileLock(run / LOCK):
        if record := detached.read(GATEWAY, run):
            detached.stop(record, run=run)
        (run / ORDERS).unlink(missing_ok=True)


def of_supervisor(settings: Settings) -> AbstractContextManager[namespace.Handles | None]:
    """The network of the instance's supervisord; None if it does not run."""
    try:
        pid = int((settings.home / "run" / "supervisord.pid").read_text())
    except (OSError, ValueError):
        pid = 0
    return namespace.of_process(pid, f"{settings.home}/conf/")


def orders(settings: Settings) -> dict[str, Any]:
    """What the gateway of these settings is to do, and the environment variables that they come from."""
    doors = [[name, settings.port(name)] for name in dict.fromkeys(settings.doors) if settings.private]
    return {
        "instance": settings.instance,
        "private": settings.private,
        "doors": doors,
        "notify": settings.notifications.given,
        "outward": [list(target) for target in settings.login.targets if settings.private],
        "given": {name: value for name, value in given().items() if inherited.passes(name)},
    }


def require_outside() -> None:
    """Raises NetworkNotOpened in the network of an instance, from which nothing leads out."""
    if where := os.environ.get(MARK):
        raise NetworkNotOpened(
            f"this process is in the network of instance {where}, where no door can be opened: use another "
            "terminal"
        )


def _compare(settings: Settings) -> None:
    before, wanted = _read_orders(settings), orders(settings)
    names = {"doors": "doors", "private": "network", "notify": "notifications", "outward": "login"}
    if not before:
        return
    before = {"outward": [], **before}  # the orders of an older release have no such key
    if changed := [names[key] for key in names if before.get(key) != wanted[key]]:
        raise OrdersChanged(changed)


def _join(settings: Settings, network: namespace.Handles) -> None:
    namespace.join(network)
    os.environ[MARK] = settings.instance


def _open(settings: Settings, wanted: dict[str, Any]) -> None:
    """Start the gateway with these orders, unless it runs with them; return when its network is ready."""
    run = folder(settings)
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    if run.stat().st_uid != os.geteuid():
        raise NetworkNotOpened(f"{run} belongs to another user: delete it")
    run.chmod(0o700)
    with FileLock(run / LOCK):
        record = detached.read(GATEWAY, run)
        if record is None or not detached.alive(record) or _read_orders(settings) != wanted:
            record = _start(settings, wanted)
        deadline = time.monotonic() + OPEN_SECONDS
        while wanted["private"] and not (run / INSIDE).exists():
            if time.monotonic() > deadline or not detached.alive(record):
                tail = (run / "gateway.log").read_text(errors="replace").splitlines()[-10:]
                raise NetworkNotOpened("\n    ".join(["the gateway does not start. Its log ends:", *tail]))
            time.sleep(POLL_SECONDS)


def _start(settings: Settings, wanted: dict[str, Any]) -> detached.ProcessRecord:
    run = folder(settings)
    require_outside()
    if before := detached.read(GATEWAY, run):
        detached.stop(before, run=run)  # and what it left behind, if it was killed
    if wanted["private"]:
        _check(settings, [name for name, _ in wanted["doors"]])
    (run / INSIDE).unlink(missing_ok=True)
    write_whole(run / ORDERS, json.dumps(wanted), 0o600)
    # -P: not from the current directory, which may be another user's.
    argv = [sys.executable, "-P", "-m", "sluice.stack.networking.gateway", str(run)]
    return detached.start(GATEWAY, argv, cwd=settings.root, log=run / "gateway.log", run=run)


def _read_orders(settings: Settings) -> dict[str, Any] | None:
    """The orders of the gateway that runs, or ran last; None if there are none that can be read."""
    try:
        found = json.loads((folder(settings) / ORDERS).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _inside(settings: Settings) -> int:
    """The pid of the relaying process; 0 if it is not ready."""
    try:
        return int((folder(settings) / INSIDE).read_text())
    except FileNotFoundError:
        return 0


def _check(settings: Settings, doors: Iterable[str]) -> None:
    if not namespace.possible():
        raise NetworkNotOpened(
            "this machine lets this user make no network namespace, so every user of the machine could reach "
            f"the daemons. Allow it ({SYSCTLS}), or, if you trust all its users, set "
            "SLUICE_NETWORK=host (docs/security.md says what they can do then)"
        )
    for door in doors:
        ports.require_free(settings, door, "a door", patience=0)
