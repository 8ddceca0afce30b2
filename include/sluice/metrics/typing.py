"""Arrays that metrics work on."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Scalar = TypeVar("Scalar", bound=np.generic)
