"""Everything that is pinned is seen, also what was packed into something else."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from tests.pins.pinned import Pin, jars, python


def packed(*artifacts: str, **files: bytes) -> bytes:
    """A jar with the ``pom.properties`` of these artifacts (group:artifact:version), and files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as jar:
        for artifact in artifacts:
            group, name, version = artifact.split(":")
            facts = f"#made\nversion={version}\ngroupId={group}\nartifactId={name}\n"
            jar.writestr(f"META-INF/maven/{group}/{name}/pom.properties", facts)
        for name, content in files.items():
            jar.writestr(name.replace("__", "/"), content)
    return made.getvalue()


def names(folder: Path) -> list[tuple[str, str, str]]:
    return sorted(
        (pin.name, pin.version, pin.where) for pin in jars(folder, "part") if pin.ecosystem == "Maven"
    )


def test_a_jar_is_known_by_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "core-2.0.jar").write_bytes(packed("org.example:core:2.0"))
    assert names(tmp_path) == [("org.example:core", "2.0", "part/core-2.0.jar")]


def test_a_jar_that_says_nothing_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "kafka-clients-4.3.1.jar").write_bytes(packed())
    (tmp_path / "epoll-4.1.72.Final-linux-x86_64.jar").write_bytes(packed("org.shaded:other:1"))
    assert names(tmp_path) == [
        ("?:epoll", "4.1.72.Final", "part/epoll-4.1.72.Final-linux-x86_64.jar"),
        ("?:kafka-clients", "4.3.1", "part/kafka-clients-4.3.1.jar"),
        ("org.shaded:other", "1", "part/epoll-4.1.72.Final-linux-x86_64.jar"),
    ]


def test_a_number_in_the_name_is_not_the_version(tmp_path: Path) -> None:
    (tmp_path / "log4j-1.2-api-2.24.3.jar").write_bytes(packed("org.log4j:log4j-1.2-api:2.24.3"))
    assert names(tmp_path) == [("org.log4j:log4j-1.2-api", "2.24.3", "part/log4j-1.2-api-2.24.3.jar")]


def test_what_was_shaded_into_a_jar_in_a_jar_is_seen(tmp_path: Path) -> None:
    inner = packed("org.example:inner:1.0", "io.netty:netty-codec-http:4.1.100.Final")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "fat-3.jar").write_bytes(
        packed("org.example:fat:3", **{"lib__inner-1.0.jar": inner})
    )
    where = "part/deep/fat-3.jar"
    assert names(tmp_path) == [
        ("io.netty:netty-codec-http", "4.1.100.Final", f"{where}!lib/inner-1.0.jar"),
        ("org.example:fat", "3", where),
        ("org.example:inner", "1.0", f"{where}!lib/inner-1.0.jar"),
    ]


def test_a_webjar_is_a_package_of_npm_too(tmp_path: Path) -> None:
    (tmp_path / "jquery-3.7.1.jar").write_bytes(packed("org.webjars.npm:jquery:3.7.1"))
    assert [(pin.ecosystem, pin.name) for pin in jars(tmp_path, "part")] == [
        ("Maven", "org.webjars.npm:jquery"),
        ("npm", "jquery"),
    ]


def test_requirements_of_every_system_are_seen(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("# pins\nPyYAML==6.0.3\nruamel.yaml==0.18 ; sys_platform == 'darwin'\n")
    assert list(python(file)) == [
        Pin("PyPI", "pyyaml", "6.0.3", "requirements.txt"),
        Pin("PyPI", "ruamel-yaml", "0.18", "requirements.txt"),
    ]
