"""Checks what the machine must have.

It runs before the environment exists, with any Python that the machine has. So it uses only the standard
library, and no syntax newer than Python 3.7.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

GIB = 1 << 30
# The Pythons that requirements.txt is resolved for; pyproject.toml has them, too.
OLDEST, NEWEST = (3, 11), (3, 13)
JAVA = 17
PROCESSORS = 2
# 1.6 GiB of Python packages, 0.5 of jars, 0.5 in ~/.m2, and room for logs and data.
DISK_BYTES = 6 * GIB
# The daemons and jobs take 5 GiB, with the Spark jobs of the demo 8.
MEMORY_BYTES = 9 * GIB
#: What may forbid a user to make a network namespace.
SYSCTLS = (
    "sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns"
)


def missing(root: Path) -> list[str]:
    """One line for each thing that the machine lacks, with the remedy."""
    return [*_python(sys.version_info[:3]), *_java(), *_tools(), *_machine(root), *_network(root)]


def _python(version: tuple[int, ...]) -> list[str]:
    problems = []
    if not OLDEST <= version[:2] <= NEWEST:
        oldest, newest, found = (".".join(map(str, each)) for each in (OLDEST, NEWEST, version))
        age = "old" if version[:2] < OLDEST else "new"
        problems.append(
            f"Python {oldest} to {newest}: {sys.executable} is {found}, which is too {age} for the pinned "
            f"packages. Install one, or name it: make PYTHON=/path/to/python{newest}"
        )
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        name = f"python{version[0]}.{version[1]}-venv"
        problems.append(f"Python's venv module: install it (Debian: apt install {name})")
    return problems


def _java() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    problems = []
    for tool, what in (("java", "Java 17"), ("javac", "a Java 17 compiler")):
        path = str(Path(home) / "bin" / tool) if home else tool
        version = java_version(path)
        if version != JAVA:
            found = "there is none" if version is None else f"{path} is version {version}"
            problems.append(
                f"{what}: {found}. Set JAVA_HOME, or install it: apt install openjdk-17-jdk-headless"
            )
    return problems


def _tools() -> list[str]:
    problems = []
    if shutil.which("mvn") is None:
        problems.append("Maven: there is no `mvn`. Install it (Debian: apt install maven)")
    if platform.system() == "Linux" and os.geteuid() == 0 and shutil.which("setpriv") is None:
        problems.append(
            "setpriv: PostgreSQL does not run as root. Install util-linux, or run as another user"
        )
    return problems


def _machine(root: Path) -> list[str]:
    problems = []
    if platform.system() != "Linux":
        problems.append(
            f"Linux: this is {platform.system()}. The daemons are watched through /proc: use Linux"
        )
    processors = os.cpu_count() or 1
    if processors < PROCESSORS:
        problems.append(f"processors: the machine has {processors}, {PROCESSORS} are needed")
    free = shutil.disk_usage(str(root)).free
    if free < DISK_BYTES:
        problems.append(f"disk: {free / GIB:.1f} GiB are free below {root}, {DISK_BYTES // GIB} are needed")
    memory = total_memory()
    if memory is not None and memory < MEMORY_BYTES:
        problems.append(f"memory: the machine has {memory / GIB:.1f} GiB, {MEMORY_BYTES // GIB} are needed")
    return problems


def _network(root: Path) -> list[str]:
    """A private network cannot be made, although the settings want one."""
    given = root / "include" / "settings.yaml"
    settings = given.read_text() if given.exists() else ""
    if re.search(r"(?m)^network: *host", settings) or os.environ.get("SLUICE_NETWORK") == "host":
        return []
    program = Path(__file__).resolve().parents[1] / "runtime" / "namespace.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, check=False)
    if done.returncode == 0:
        return []
    return [
        "network namespaces: this user may make none here, so other users could reach the daemons. Allow it "
        f"({SYSCTLS}), or, if you trust all users, set SLUICE_NETWORK=host"
    ]


def java_version(command: str) -> int | None:
    """The major version that ``java`` or ``javac`` reports; None if it cannot be run."""
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r"(?:version \"|javac )(\d+)", done.stderr + done.stdout)
    return int(found.group(1)) if found else None


def total_memory() -> int | None:
    """The machine's memory in bytes; None if /proc does not say."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    found = re.search(r"MemTotal:\s+(\d+) kB", text)
    return int(found.group(1)) * 1024 if found else None


def main() -> int:
    problems = missing(Path(__file__).resolve().parents[3])
    for problem in problems:
        sys.stderr.write(f"missing: {problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
