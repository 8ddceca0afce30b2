"""Takes from the build stage what no daemon and no job loads.

Run it in /opt/sluice, before modules are compiled. It removes the tests that packages bring along, the parts
of Arrow and Spark that Sluice does not use, and debug symbols. Of jars and libraries that are the same file
it leaves one, and symbolic links to it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = next(Path(".venv/lib").glob("python3.*/site-packages"))
JARS = Path("pyspark/jars")
#: Packages whose `tests` directories are large, and that never import them.
TESTED = ("numba", "numpy", "pandas", "pyarrow", "scipy")
#: Patterns of files: Spark's state stores on disk, machine learning, graphs, Spark Connect and Kubernetes,
#: Netty for other systems; Arrow's servers.
UNUSED = (
    *(JARS / name for name in ("rocksdbjni-*", "spark-mllib*", "spark-graphx*", "breeze*", "spire*")),
    *(JARS / name for name in ("cats-kernel*", "algebra_*", "arpack*", "lapack*", "blas-*", "pmml-*")),
    *(JARS / name for name in ("spark-connect_*", "*kubernetes*", "*-osx-*", "*-windows-*")),
    Path("pyarrow/*flight*.so*"),
)
UNUSED_DIRECTORIES = ("pyspark/examples", "pyspark/data", "pyspark/jars/connect-repl", "pyarrow/include")


def main() -> None:
    for package in TESTED:
        for tests in [path for path in (PACKAGES / package).rglob("tests") if path.is_dir()]:
            shutil.rmtree(tests)
    for name in UNUSED_DIRECTORIES:
        shutil.rmtree(PACKAGES / name, ignore_errors=True)
    unused = [path for pattern in UNUSED for path in PACKAGES.glob(str(pattern))]
    for path in unused:
        path.unlink()
    check_needed({path.name for path in unused})
    for library in sorted(libraries()):
        subprocess.run(["strip", "--strip-unneeded", str(library)], check=True)
    link_equal([*Path("var/lib").rglob("*.jar"), *(PACKAGES / JARS).glob("*.jar"), *libraries()])


def libraries() -> Iterator[Path]:
    """The packages' shared libraries, except those that auditwheel moved: strip would break them."""
    for path in PACKAGES.rglob("*.so*"):
        if path.is_file() and not path.is_symlink() and not path.parent.name.endswith(".libs"):
            yield path


def check_needed(deleted: set[str]) -> None:
    """Stop the build if a library that is left needs one that was deleted."""
    for library in libraries():
        headers = subprocess.run(["objdump", "-p", str(library)], capture_output=True, text=True, check=True)
        needed = {line.split()[1] for line in headers.stdout.splitlines() if line.split()[:1] == ["NEEDED"]}
        if missing := needed & deleted:
            sys.exit(f"{library} needs {', '.join(sorted(missing))}: do not delete it")


def link_equal(files: list[Path]) -> None:
    """Replace each file that is there more than once by a relative link to the first of its kind."""
    first: dict[bytes, Path] = {}
    for file in sorted(files):
        same = first.setdefault(hashlib.sha256(file.read_bytes()).digest(), file)
        if same != file:
            file.unlink()
            file.symlink_to(os.path.relpath(same, file.parent))


if __name__ == "__main__":
    sys.exit(main())
