"""A team's metrics with faults, each at a measure: one hangs, one exits, one takes memory without end.

The first one is mended once there is a file `mended` in the folder of faults.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sluice.metrics.user import UserMetric


class LargestMeasure(UserMetric[float]):
    """What is common to them."""

    def zero(self) -> float:
        return 0.0

    def merge(self, a: float, b: float) -> float:
        return max(a, b)

    def result(self, state: float) -> float:
        return state


class Hangs(LargestMeasure):
    name = "hangs"

    def add(self, state: float, values: npt.NDArray[np.float64]) -> float:
        while -14 in values and not (Path(os.environ["SLUICE_FAULTS"]) / "mended").exists():
            time.sleep(1)
        return max(state, float(values.max()))


class Exits(LargestMeasure):
    name = "exits"

    def add(self, state: float, values: npt.NDArray[np.float64]) -> float:
        if -15 in values:
            os._exit(3)
        return max(state, float(values.max()))


class Grows(LargestMeasure):
    name = "grows"

    def add(self, state: float, values: npt.NDArray[np.float64]) -> float:
        kept = []
        while -16 in values:
            kept.append(bytearray(1 << 20))
        return max(state, float(values.max()))
