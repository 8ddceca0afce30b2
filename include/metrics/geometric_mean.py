"""The geometric mean of the measures above 0: what is typical if values span magnitudes."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sluice.metrics.user import UserMetric

#: How many measures, and the sum of their logarithms.
State = tuple[int, float]


class GeometricMean(UserMetric[State]):
    name = "geometric_mean"
    measure = "number"
    tolerance = 1e-9  # logarithms are summed in different orders

    def zero(self) -> State:
        return 0, 0.0

    def add(self, state: State, values: npt.NDArray[np.float64]) -> State:
        positive = values[values > 0]
        return state[0] + len(positive), state[1] + float(np.log(positive).sum())

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    def result(self, state: State) -> float | None:
        count, logarithms = state
        return math.exp(logarithms / count) if count else None
