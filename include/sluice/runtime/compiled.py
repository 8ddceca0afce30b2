"""The decorator of every kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def compiled(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Compile on first use, and keep the code on disk.

    Other threads can run while the kernel does. Type checkers still see the types of the Python function.
    """
    kernel = numba.njit(cache=True, nogil=True)(function)
    return cast("Callable[Parameters, Answer]", kernel)


def inlined(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Compile a small part of kernels into each place that calls it: a call would cost more than its work."""
    kernel = numba.njit(inline="always", nogil=True)(function)
    return cast("Callable[Parameters, Answer]", kernel)
