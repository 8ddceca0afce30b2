"""Compiled kernels that go along with the package to the executors of a cluster.

There the package is a zip in a folder of the application. numba keeps code by that path, so it would compile
all kernels again for each application, which takes most of a minute of each executor's core. Therefore the
zip has what is compiled here. An executor unpacks it once, into a folder that is named like the zip and so
like its content. Code for another kind of processor is left alone there; what is compiled instead is kept
beside it.
"""

from __future__ import annotations

import functools
import tempfile
import zipfile
from pathlib import Path

#: In the zip, the folder with the files of code.
FOLDER = "compiled"
#: Whom numba asks, in this order, where it keeps code (NUMBA_CACHE_LOCATOR_CLASSES): ours, then its own.
LOCATORS = (
    "sluice.runtime.code_locator.Locator",
    *(f"{name}CacheLocator" for name in ("UserProvided", "InTree", "UserWide", "IPython", "Zip")),
)


def compiled(source: Path) -> dict[str, bytes]:
    """The code of all kernels of a package that were compiled on this machine, by its names in the zip."""
    found = sorted(source.rglob("__pycache__/*.nb[ic]"))
    return {
        f"{FOLDER}/{path.parent.parent.relative_to(source.parent)}/{path.name}": path.read_bytes()
        for path in found
    }


@functools.cache
def unpacked(package: Path) -> Path:
    """The folder with the code that came in the package."""
    from numba.misc.appdirs import AppDirs

    folder = Path(AppDirs("numba", appauthor=False).user_cache_dir) / package.stem
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch, zipfile.ZipFile(package) as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{FOLDER}/")]
        archive.extractall(scratch, names)
        made = Path(scratch) / FOLDER
        made.mkdir(exist_ok=True)
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():  # no other process was first
                raise
    return folder
