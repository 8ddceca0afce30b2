"""Tells numba where the code of kernels lies that came with the package (`runtime.shipped`)."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any, Self

from numba.core.caching import ZipCacheLocator

from sluice.runtime.shipped import unpacked

_PACKAGE = re.compile(r"/sluice-[0-9a-f]{16}\.zip/")


class Locator(ZipCacheLocator):
    """Says to numba where the code of a kernel in the package lies."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        self._cache_path = str(unpacked(Path(self._zip_path)) / PurePosixPath(self._internal_path).parent)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Self | None:
        try:
            return cls(py_func, py_file) if _PACKAGE.search(py_file) else None
        except OSError:  # nothing can be kept: numba's own ways are tried
            return None
