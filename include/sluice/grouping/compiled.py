"""Decorators of compiled functions: Python calls kernels; kernels and steps call steps.

numba keeps a kernel's code on disk. It compiles a kernel again when the kernel's own file has changed, but
not when the file of a step that it calls has changed. So a kernel's name, under which its code is kept,
contains a checksum of the files of all steps that it may reach. Steps are not kept by themselves. (Import
steps by name, and put constants that a step uses into a file with a step.)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.dispatcher import Dispatcher

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def kernel(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Compile on first use and keep the code on disk; other threads run while the kernel does."""
    function.__qualname__ += f"_{_checksum(cast('FunctionType', function)):08x}"
    return cast("Callable[Parameters, Answer]", numba.njit(cache=True, nogil=True)(function))


_INLINED: dict[str, Any] = {"nogil": True, "forceinline": True, "_nrt": False}
#: What a step may return.
_NUMBERS = {"int", "float", "bool", "np.uint64", "None"}


def step(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Compile as a part of the kernels that call it.

    A step allocates nothing and returns a number or None. It counts no references to its arrays, because its
    caller holds them while it runs. Counting them, once for each array of a state in each call, would be most
    of a tuple's cost (Space-Saving: 215 ns with it, 25 without). Raises TypeError for a step that is not
    declared to return a number or None, because an array would be freed too early.
    """
    returns = function.__annotations__.get("return")
    if returns not in _NUMBERS:
        raise TypeError(
            f"step {function.__qualname__} returns {returns}; it must be one of {sorted(_NUMBERS)}"
        )
    return cast("Callable[Parameters, Answer]", numba.njit(**_INLINED)(function))


def _checksum(function: FunctionType) -> int:
    """The checksum of the files of the function, of all that it reaches, and of this file."""
    files = {__file__}
    seen: set[int] = set()

    def visit(reached: Any) -> None:
        files.add(reached.__code__.co_filename)
        if id(reached.__globals__) not in seen:
            seen.add(id(reached.__globals__))
            for value in reached.__globals__.values():
                if isinstance(value, Dispatcher):
                    visit(value.py_func)

    visit(function)
    checksum = 0
    for file in sorted(files):
        # Read by the loader, because on the executors of a cluster this package is a zip.
        checksum = zlib.crc32(cast("Any", __spec__).loader.get_data(file), checksum)
    return checksum
