"""A team's metric with a fault: the largest measure, but it raises at one below zero."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sluice.metrics.user import UserMetric


class FailsBelowZero(UserMetric[float]):
    name = "fails_below_zero"

    def zero(self) -> float:
        return 0.0

    def add(self, state: float, values: npt.NDArray[np.float64]) -> float:
        if values.min() < 0:
            raise ArithmeticError("below zero")
        return max(state, float(values.max()))

    def merge(self, a: float, b: float) -> float:
        return max(a, b)

    def result(self, state: float) -> float:
        return state
