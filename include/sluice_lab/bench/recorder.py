"""Where a call's processor time goes, by its stack of functions."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any, Self

#: Seconds by stack, outermost function first, joined by ";" as flame graphs are fed.
Stacks = dict[str, float]


class Recorder:
    """Records all calls while its context lasts; numba's kernels are functions like any other."""

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._spent: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self._since = 0.0

    def __enter__(self) -> Self:
        self._since = time.process_time()
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    @property
    def stacks(self) -> Stacks:
        return {";".join(stack): seconds for stack, seconds in self._spent.items() if stack}

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        now = time.process_time()
        self._spent[tuple(self._stack)] += now - self._since
        if event == "call":
            self._stack.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
        elif event == "c_call":
            self._stack.append(getattr(argument, "__qualname__", str(argument)))
        elif self._stack:  # the context was entered inside a call, so one more return comes than calls did
            self._stack.pop()
        self._since = time.process_time()


def by_stage(stacks: Stacks, stages: dict[str, str], rest: str) -> dict[str, float]:
    """Seconds of each stage: a stack is of the stage of its innermost function that has one."""
    found = dict.fromkeys([*stages.values(), rest], 0.0)
    for stack, seconds in stacks.items():
        names = reversed(stack.split(";"))
        found[next((stages[name] for name in names if name in stages), rest)] += seconds
    return found
