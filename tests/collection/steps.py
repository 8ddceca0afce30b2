"""The steps of a move, in their order, and what happens to the mover at one of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import pytest

from sluice.collection import lifecycle, metrics, moving, placed, records, relocation


@dataclass(frozen=True)
class Step:
    """A moment of a move: just before or just after a call of a function of the product."""

    name: str
    module: ModuleType
    function: str
    after: bool
    #: Which side has a process of the collector then.
    runs: str = ""

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
    Step("copied", relocation, "prepare", after=True, runs="old"),
    Step("wanted", placed, "write", after=True, runs="old"),
    Step("held", metrics, "drain", after=False, runs="old"),
    Step("drained", metrics, "drain", after=True, runs="old"),
    Step("stopped", lifecycle, "stop", after=True),
    Step("torn", records, "write", after=False),  # the record names the new host, and is not complete
    Step("recorded", records, "write", after=True),
    Step("started", lifecycle, "start", after=True, runs="new"),
    Step("ready", moving, "_tell_edges", after=False, runs="new"),
)

Victim = Literal["mover", "old", "new", "both"]


@dataclass(frozen=True)
class Kill:
    """kill -9 when a move is at a step.

    victim: the mover; the collector on the old or the new host; or `both`, the mover and the collector.
    """

    step: Step
    victim: Victim

    def __str__(self) -> str:
        return f"{self.step}-{self.victim}"


def matrix() -> list[Kill]:
    """Everybody who runs, at each step."""
    return [Kill(step, victim) for step in STEPS for victim in _victims(step)]


def _victims(step: Step) -> tuple[Victim, ...]:
    if not step.runs:
        return ("mover",)
    return ("mover", "old" if step.runs == "old" else "new", "both")


#: The kills of every test run: one at the beginning, while it drains, between the hosts, and on the new one.
FEW = "wanted-old,drained-both,torn-mover,started-new"


def chosen() -> list[Kill]:
    """A few; or those that SLUICE_TEST_MOVES names, with commas between; with `all` the whole matrix."""
    named = os.environ.get("SLUICE_TEST_MOVES", FEW).split(",")
    return [kill for kill in matrix() if named == ["all"] or str(kill) in named]
