"""Gives one part a clock that is hours wrong: it starts again with a library that tells it another time.

The library is ours, because libfaketime 0.9.10, which Debian has, makes Python's `time.sleep` fail where it
leaves the clock alone by which a process waits.

supervisord starts daemons and the watch, so its configuration gets the variables of one program meanwhile.
Airflow starts jobs and agents: such a process ends, and another one starts at once with the same environment
and these variables. At the end it is killed, and Airflow starts one whose clock is right.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import psutil

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack import supervisord
from sluice_lab.chaos.parts import ChaosPart, PartSort

SOURCE = Path(__file__).with_suffix(".c")
HOURS = (1.0, 12.0)
TRIES = 5


def why_not() -> str:
    """Why no clock can be wrong here; empty if one can."""
    return "" if shutil.which("cc") else "there is no C compiler (Debian: apt install gcc libc6-dev)"


def library(settings: Settings) -> Path:
    """The library that tells a process another time; made if it is not there. Raises CalledProcessError."""
    path = settings.home / "tmp" / "wrong-clock.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(path), str(SOURCE), "-ldl"], check=True)
    return path


def hours(chance: int) -> float:
    """By how much a clock is wrong: ahead, or, if negative, behind."""
    dice = random.Random(chance)  # noqa: S311
    return round(dice.choice((-1, 1)) * dice.uniform(*HOURS), 2)


def variables(settings: Settings, ahead: float) -> dict[str, str]:
    """The environment of a process whose clock is so many hours ahead."""
    own = {"LD_PRELOAD": str(library(settings)), "SLUICE_CHAOS_CLOCK": f"{ahead * 3600:.0f}"}
    return {**own, "SLUICE_INHERIT": json.dumps(list(own))}


def wrong(settings: Settings, part: ChaosPart, ahead: float) -> AbstractContextManager[None]:
    """While the block lasts, the part is a process whose clock is so many hours ahead."""
    if part.sort in (PartSort.DAEMON, PartSort.WATCH):
        return _program(settings, part.name, ahead)
    return _detached(settings, part.name, ahead)


@contextmanager
def _program(settings: Settings, name: str, ahead: float) -> Iterator[None]:
    path = settings.home / "conf" / "supervisord.conf"
    right = path.read_text()
    try:
        path.write_text(configured(right, name, variables(settings, ahead)))
        supervisord.update(settings)
        yield
    finally:
        path.write_text(right)
        supervisord.update(settings)


def configured(text: str, name: str, environment: dict[str, str]) -> str:
    """supervisord's configuration with an environment for one program."""
    head = f"[program:{name}]\n"
    if head not in text:
        raise ValueError(f"supervisord has no program {name!r}")
    pairs = ",".join(f"{key}='{value}'" for key, value in environment.items())
    return text.replace(head, f"{head}environment={pairs}\n")


@contextmanager
def _detached(settings: Settings, name: str, ahead: float) -> Iterator[None]:
    process = _again(settings, name, variables(settings, ahead))
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):  # Airflow may have taken its silence for its end
            process.kill()


def _again(settings: Settings, name: str, more: dict[str, str]) -> psutil.Process:
    """End the process, and start it with more variables. Airflow may be faster: then that one ends, too.

    Raises NoSuchProcess, ProcessError.
    """
    run = settings.home / "run"
    environment, folder, record = {}, None, None
    for _ in range(TRIES):
        if living := detached.adopt(name, run):
            process, record = psutil.Process(living.pid), living
            environment, folder = process.environ(), Path(process.cwd())
            process.kill()
            process.wait()
        if record is None:
            raise psutil.NoSuchProcess(0, name)
        with suppress(detached.AlreadyRunning):
            started = detached.start(
                name, record.argv, {**environment, **more}, folder, run=run, owner=record.owner
            )
            return psutil.Process(started.pid)
    raise detached.ProcessError(f"{name} was started {TRIES} times before it could be with another clock")
