"""What is pinned: Python's packages, the jars and what lies in them, the pages' scripts, PostgreSQL."""

from __future__ import annotations

import io
import re
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from sluice.runtime.jvm import LIB
from sluice.runtime.settings import ROOT
from sluice.stack.environment import spark_home
from sluice.stack.jars import components, require

REQUIREMENTS = ("requirements.txt", "requirements-dev.txt")
UNKNOWN = "?"  # the group of a jar that does not say it
_NAME = re.compile(r"(?P<artifact>.+?)-(?P<version>\d.*?)(-(linux|osx|windows)-[a-z0-9_]+)?\.jar$")


@dataclass(frozen=True, order=True)
class Pin:
    """A package in one version. ecosystem: as OSV names it. name: of a Maven package, group:artifact.

    where: the requirements file or the jar, with what it lies in.
    """

    ecosystem: str
    name: str
    version: str
    where: str


def all_pins() -> list[Pin]:
    """Everything, sorted. Raises JarsMissing for a component that was not resolved."""
    found = {*postgres()}
    for name in REQUIREMENTS:
        found.update(python(ROOT / name))
    for component in components():
        require(component)
        found.update(jars(LIB / component, component))
    found.update(jars(spark_home() / "jars", "pyspark/jars"))
    return sorted(found)


def python(requirements: Path) -> Iterator[Pin]:
    """The packages of a resolved requirements file, whatever system they are for."""
    for line in requirements.read_text().splitlines():
        if "==" in line and not line.startswith("#"):
            wanted = Requirement(line)
            version = next(iter(wanted.specifier)).version
            yield Pin("PyPI", re.sub(r"[-_.]+", "-", wanted.name).lower(), version, requirements.name)


def jars(folder: Path, name: str) -> Iterator[Pin]:
    """What is in the jars below the folder, which the pins call `name`."""
    for path in sorted(folder.rglob("*.jar")):
        with zipfile.ZipFile(path) as jar:
            yield from _within(jar, path.name, f"{name}/{path.relative_to(folder)}")


def _within(jar: zipfile.ZipFile, file: str, where: str) -> Iterator[Pin]:
    """The jar itself, all that was packed into it, and all in the jars in it.

    Shaded copies keep their ``pom.properties``. A jar that has none of its own is known by its file's name.
    """
    own = _NAME.fullmatch(file)
    named = False
    for entry in jar.namelist():
        if entry.startswith("META-INF/maven/") and entry.endswith("/pom.properties"):
            facts = _properties(jar.read(entry))
            if not {"groupId", "artifactId", "version"} <= facts.keys():
                continue
            named |= file.startswith(f"{facts['artifactId']}-{facts['version']}")
            yield from _maven(facts["groupId"], facts["artifactId"], facts["version"], where)
        elif entry.endswith(".jar"):
            with zipfile.ZipFile(io.BytesIO(jar.read(entry))) as inner:
                yield from _within(inner, entry.rsplit("/", 1)[-1], f"{where}!{entry}")
    if own and not named:
        yield from _maven(UNKNOWN, own["artifact"], own["version"], where)


def _properties(text: bytes) -> dict[str, str]:
    lines = (line.partition("=") for line in text.decode("utf-8", "replace").splitlines())
    return {key.strip(): value.strip() for key, equals, value in lines if equals}


def _maven(group: str, artifact: str, version: str, where: str) -> Iterator[Pin]:
    yield Pin("Maven", f"{group}:{artifact}", version, where)
    if group.startswith("org.webjars"):  # a package of npm, packed as a jar
        yield Pin("npm", artifact, version, where)


def postgres() -> Iterator[Pin]:
    """The server. OSV has it in Bitnami's ecosystem."""
    server = require("postgres") / "server" / "bin" / "postgres"
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    yield Pin("Bitnami", "postgresql", said.split()[-1], "postgres/server")
