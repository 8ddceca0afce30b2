"""What the machine must have. Runs before the environment exists, so with the standard library only."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

GIB = 1 << 30
PYTHON = (3, 11)
JAVA = 17
PROCESSORS = 2
# 1.6 GiB of Python packages, 0.5 of jars, 0.5 in ~/.m2, and room for logs and data.
DISK_BYTES = 6 * GIB
# The daemons and jobs take 5 GiB; the tests' and the demo's Spark jobs come on top.
MEMORY_BYTES = 8 * GIB


def missing(root: Path) -> Iterator[str]:
    """One line for each thing that the machine lacks, with what to do."""
    if (system := platform.system()) != "Linux":
        yield f"Linux: this is {system}, and the daemons are watched through /proc. Use a Linux machine"
    if (processors := os.cpu_count() or 1) < PROCESSORS:
        yield f"processors: the machine has {processors}, {PROCESSORS} are needed"
    if sys.version_info[:2] != PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        yield f"Python 3.11: {sys.executable} is {found}. Install it, or name it: make PYTHON=python3.11"
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        yield "Python's venv module: install it (Debian: apt install python3.11-venv)"
    home = os.environ.get("JAVA_HOME")
    for tool, what in (("java", "Java 17"), ("javac", "a Java 17 compiler")):
        path = str(Path(home) / "bin" / tool) if home else tool
        version = java_version(path)
        if version != JAVA:
            is_there = "there is none" if version is None else f"{path} is version {version}"
            yield f"{what}: {is_there}. Set JAVA_HOME, or install it: apt install openjdk-17-jdk-headless"
    if shutil.which("mvn") is None:
        yield "Maven: there is no `mvn`. Install it (Debian: apt install maven)"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        yield "setpriv: PostgreSQL does not run as root. Install util-linux, or run as another user"
    if (free := shutil.disk_usage(root).free) < DISK_BYTES:
        yield f"disk: {free / GIB:.1f} GiB are free below {root}, {DISK_BYTES // GIB} are needed"
    if (memory := total_memory()) is not None and memory < MEMORY_BYTES:
        yield f"memory: the machine has {memory / GIB:.1f} GiB, {MEMORY_BYTES // GIB} are needed"


def java_version(command: str) -> int | None:
    """The major version that ``java`` or ``javac`` says it is; None if it cannot be run."""
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r"(?:version \"|javac )(\d+)", done.stderr + done.stdout)
    return int(found.group(1)) if found else None


def total_memory() -> int | None:
    """Bytes of memory of the machine; None where /proc does not tell."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    found = re.search(r"MemTotal:\s+(\d+) kB", text)
    return int(found.group(1)) * 1024 if found else None


def main() -> int:
    problems = list(missing(Path(__file__).resolve().parents[3]))
    for problem in problems:
        sys.stderr.write(f"missing: {problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
