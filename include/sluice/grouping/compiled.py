"""The decorators of compiled functions: a kernel is called from Python, a step only by kernels and steps.

numba keeps a kernel's code on disk and compiles it again when the kernel's own file has changed, but not when
that of a step has which it calls. So a kernel's name, under which its code is kept, has a checksum of the
files of all steps that it may reach, and steps are not kept by themselves. (Steps are to be imported by name,
and constants that a step uses belong into a file with a step.)
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
    """Compile on first use, keep the code on disk, let other threads run meanwhile."""
    function.__qualname__ += f"_{_checksum(cast('FunctionType', function)):08x}"
    return cast("Callable[Parameters, Answer]", numba.njit(cache=True, nogil=True)(function))


_INLINED: dict[str, Any] = {"nogil": True, "forceinline": True, "_nrt": False}
#: What a step may return.
_NUMBERS = {"int", "float", "bool", "np.uint64", "None"}


def step(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Compile as a part of the kernels that call it. It allocates nothing and returns a number or None.

    A step counts no references to its arrays: they are its caller's while it runs. Counting them, once for
    each array of a state and each call, is most of a tuple's cost (Space-Saving: 215 ns with it, 25 without).
    Raises TypeError for one that is not declared to return a number; an array would be freed too early.
    """
    returns = function.__annotations__.get("return")
    if returns not in _NUMBERS:
        raise TypeError(
            f"step {function.__qualname__} returns {returns}; it must be one of {sorted(_NUMBERS)}"
        )
    return cast("Callable[Parameters, Answer]", numba.njit(**_INLINED)(function))


def _checksum(function: FunctionType) -> int:
    """Of the files of the function, of all compiled functions that it reaches, and of this one."""
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
        # By the loader: on the executors of a cluster this package is a zip.
        checksum = zlib.crc32(cast("Any", __spec__).loader.get_data(file), checksum)
    return checksum
