"""The steps of a move, in their order, and what happens to the mover at one of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Literal

import pytest

from sluice.collection import lifecycle, metrics, records
from sluice.collection.errors import AgentError
from sluice_hosts import placed
from sluice_hosts.agents import moving, relocation, remnants
from sluice_hosts.agents.ssh_machine import SshMachine
from sluice_lab.waiting import until

Side = Literal["old", "new"]
Victim = Literal["mover", "old", "new"]


class Crash(BaseException):
    """The mover's process ends here."""


def crash() -> None:
    raise Crash


@dataclass(frozen=True)
class Step:
    """A moment of a move: just before or just after a call of a function of the product."""

    name: str
    module: ModuleType | type
    function: str
    after: bool
    #: The hosts that have a process of the collector then.
    runs: tuple[Side, ...] = ()

    def __str__(self) -> str:
        return self.name

    def reach(self, patch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
        """Do something when the move comes here for the first time."""
        real, begun = getattr(self.module, self.function), [False]

        def call(*arguments: Any, **options: Any) -> Any:
            first, begun[0] = not begun[0], True
            if first and not self.after:
                do()
            answer = real(*arguments, **options)
            if first and self.after:
                do()
            return answer

        patch.setattr(self.module, self.function, call)


STEPS = (
    Step("copied", relocation, "prepare", after=True, runs=("old",)),
    Step("wanted", placed, "write", after=True, runs=("old",)),
    Step("begun", remnants, "add", after=True, runs=("old",)),
    Step("started", SshMachine, "start", after=True, runs=("old", "new")),
    Step("ready", lifecycle, "await_ready", after=True, runs=("old", "new")),
    # The record names the new host, and is not complete.
    Step("torn", records, "write", after=False, runs=("old", "new")),
    Step("recorded", records, "write", after=True, runs=("old", "new")),
    Step("told", moving, "_tell_edges", after=True, runs=("old", "new")),
    Step("held", metrics, "drain", after=False, runs=("old", "new")),
    Step("drained", metrics, "drain", after=True, runs=("old", "new")),
    Step("stopped", SshMachine, "stop", after=True, runs=("new",)),
)


@dataclass(frozen=True)
class Kill:
    """kill -9 when a move is at a step.

    victims: the mover, and the collector on the old or the new host, or several of them.
    """

    step: Step
    victims: tuple[Victim, ...]

    def __str__(self) -> str:
        return "-".join([self.step.name, *self.victims])


def matrix() -> list[Kill]:
    """At each step the mover, each process of the collector, and each of these with the mover."""
    return [Kill(step, victims) for step in STEPS for victims in _victims(step)]


def _victims(step: Step) -> Iterator[tuple[Victim, ...]]:
    yield ("mover",)
    for side in step.runs:
        yield (side,)
        yield ("mover", side)


#: The kills of every test run: before it begins, as it starts, in the middle of the record, and as it ends.
FEW = "wanted-old,started-new,torn-mover-new,drained-mover-old"


def chosen() -> list[Kill]:
    """A few; or those that SLUICE_TEST_MOVES names, with commas between; with `all` the whole matrix."""
    wanted = os.environ.get("SLUICE_TEST_MOVES", FEW)
    return matrix() if wanted == "all" else named(wanted)


def named(names: str) -> list[Kill]:
    """Kills by their names, with commas between."""
    known = {str(kill): kill for kill in matrix()}
    return [known[name] for name in names.split(",")]


@contextmanager
def struck(patch: pytest.MonkeyPatch, kill: Kill, process: Callable[[Side], int]) -> Iterator[None]:
    """Kill them when a move in this block comes to the step; the block may end by that.

    process: the number of the collector's process on a side, as soon as there is one.
    """

    def strike() -> None:
        for side in kill.victims:
            if side != "mover":
                os.kill(until(partial(process, side)), signal.SIGKILL)
        if "mover" in kill.victims:
            crash()

    with patch.context() as killed, suppress(Crash, AgentError):
        kill.step.reach(killed, strike)
        yield
