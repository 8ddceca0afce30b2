"""Jars are resolved only if their pom changed."""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest

from sluice.runtime.jvm import java_command
from sluice.stack import jars

MAVEN = "{http://maven.apache.org/POM/4.0.0}"


@pytest.fixture
def resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the poms and a library that looks as if they had been resolved."""
    shutil.copytree(jars.POMS, tmp_path / "poms")
    monkeypatch.setattr(jars, "POMS", tmp_path / "poms")
    monkeypatch.setattr(jars, "LIB", tmp_path / "lib")
    for component in jars.components():
        (tmp_path / "lib" / component).mkdir(parents=True)
        (tmp_path / "lib" / component / jars.STAMP).write_text(jars.stamp(component))
    return tmp_path


def test_nothing_is_stale_after_resolving(resolved: Path) -> None:
    assert jars.stale() == []
    assert jars.resolve() == []


def test_a_changed_pom_makes_its_component_stale(resolved: Path) -> None:
    pom = resolved / "poms" / "kafka" / "pom.xml"
    pom.write_text(pom.read_text().replace("4.0.0</modelVersion>", "4.0.0</modelVersion><!-- changed -->"))
    assert jars.stale() == ["kafka"]


def test_a_changed_version_makes_every_component_stale(resolved: Path) -> None:
    pom = resolved / "poms" / "pom.xml"
    pom.write_text(pom.read_text().replace("<version>1</version>", "<version>2</version>"))
    assert jars.stale() == jars.components()


def test_what_was_not_resolved_is_named_with_the_remedy(resolved: Path) -> None:
    (resolved / "lib" / "hbase" / jars.STAMP).unlink()
    with pytest.raises(jars.JarsMissing, match="run `make setup`"):
        jars.require("hbase")


def test_every_component_is_a_module_of_the_reactor() -> None:
    modules = ET.parse(jars.POMS / "pom.xml").getroot().iter(f"{MAVEN}module")  # noqa: S314 - our own file
    assert [module.text for module in modules] == jars.components()


def test_every_version_is_pinned() -> None:
    for pom in jars.POMS.glob("**/pom.xml"):
        for dependency in ET.parse(pom).getroot().iter(f"{MAVEN}dependency"):  # noqa: S314
            version = dependency.findtext(f"{MAVEN}version", "")
            assert re.fullmatch(r"\$\{[a-z0-9.]+\}|[0-9][\w.-]*", version), (pom, dependency[1].text, version)


def test_configuration_comes_before_the_jars(tmp_path: Path) -> None:
    argv = java_command("kafka", "kafka.Kafka", ["x"], heap="64m", classpath=[tmp_path])
    classpath = argv[argv.index("-cp") + 1].split(":")
    assert classpath[0] == str(tmp_path)
    assert classpath[1].endswith("kafka/*")
    assert argv[-2:] == ["kafka.Kafka", "x"]
    assert "-Xmx64m" in argv


def test_the_same_classes_give_the_same_jar(tmp_path: Path) -> None:
    classes = tmp_path / "classes"
    classes.mkdir()
    jars_made = []
    for seconds in (1_000_000_000, 2_000_000_000):
        (classes / "A.class").write_bytes(b"code")
        os.utime(classes / "A.class", (seconds, seconds))
        jars._pack(classes, tmp_path / "made.jar", "Main-Class: A\n")
        jars_made.append((tmp_path / "made.jar").read_bytes())
    assert jars_made[0] == jars_made[1]


def test_a_python_without_tarfile_filters_unpacks_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11.2 has neither `tarfile.data_filter` nor the parameter."""
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:xz") as archive:
        archive.addfile(tarfile.TarInfo("bin/postgres"))
    with zipfile.ZipFile(tmp_path / "embedded-postgres-1.jar", "w") as jar:
        jar.writestr("postgres.txz", inner.getvalue())
    extractall = tarfile.TarFile.extractall
    monkeypatch.delattr(tarfile, "data_filter", raising=False)

    def without_filter(self: tarfile.TarFile, path: Path) -> None:
        extractall(self, path)

    monkeypatch.setattr(tarfile.TarFile, "extractall", without_filter)
    jars._unpack_postgres(tmp_path)
    assert (tmp_path / "server" / "bin" / "postgres").is_file()
