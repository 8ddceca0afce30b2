"""The image of docker/Dockerfile: ``make test-containers`` builds it with podman, from nothing."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest

from tests.containers.building import build, inspect
from tests.containers.podman import IMAGE, podman, volumes

pytestmark = [pytest.mark.containers, pytest.mark.timeout(7200)]

IMAGE_BYTES = 2_000_000_000
#: Modules that load libraries which were stripped, or whose neighbours were deleted.
STRIPPED = (
    *("asyncpg", "cryptography.fernet", "great_expectations", "grpc", "lz4.frame", "numba", "pandas"),
    *("polars", "psycopg2", "pyarrow.dataset", "scipy.sparse.linalg", "uvloop", "zstandard"),
)


def has(command: str) -> bool:
    """Whether the shell command succeeds in a container of the image."""
    shell = ("sh", "-c", f"{command} >&2 && echo yes")
    return podman("run", "--rm", "--network=none", IMAGE, *shell, check=False).strip() == "yes"


def test_it_is_small_and_its_user_is_not_root(image: dict[str, Any]) -> None:
    assert image["Size"] <= IMAGE_BYTES
    assert image["Config"]["User"] == "sluice"
    assert has('test "$(id -u)" -gt 999')
    assert not has("touch /opt/sluice/dags/x")
    for volume in ("airflow", "data/kafka", "data/zookeeper"):
        assert has(f"touch /opt/sluice/var/main/{volume}/x")


def test_it_has_a_java_runtime_and_nothing_to_build_or_test_with(image: dict[str, Any]) -> None:
    assert has("java -version")
    modules = (
        f"python -c 'import {module}'" for module in ("pytest", "sluice_lab.bench", "sluice_lab.browser")
    )
    for absent in ("command -v javac", "command -v mvn", *modules):
        assert not has(absent), absent


@pytest.mark.parametrize("module", STRIPPED)
def test_what_was_taken_out_is_missed_by_nobody(image: dict[str, Any], module: str) -> None:
    assert has(f"python -c 'import {module}'")


def test_built_again_it_is_the_same(image: dict[str, Any]) -> None:
    build(f"{IMAGE}-again")
    again = inspect(f"{IMAGE}-again")
    assert again["RootFS"]["Layers"] == image["RootFS"]["Layers"]
    assert again["Id"] == image["Id"]


def test_volumes_are_saved_and_loaded_as_they_were(image: dict[str, Any], tmp_path: Path) -> None:
    mark = secrets.token_hex(4)
    old, new = f"sluice-old-{mark}", f"sluice-new-{mark}"
    home = "/opt/sluice/var/main/data/kafka"

    def kafka(project: str, command: str) -> str:
        """Run a command as the image's user on the project's volume of Kafka."""
        mount = f"--volume={project}_kafka:{home}"
        return podman("run", "--rm", "--network=none", "--workdir", home, mount, IMAGE, "sh", "-c", command)

    look = "stat -c '%u %g %a %n' . a a/b && cat a/b"
    try:
        kafka(old, "mkdir -m 700 a && echo data > a/b && chmod 640 a/b")
        volumes("save", tmp_path, old)
        volumes("load", tmp_path, new)
        assert kafka(new, look) == kafka(old, look)
        assert "not empty" in volumes("load", tmp_path, new, fails=True)
        assert {file.stat().st_mode & 0o077 for file in tmp_path.iterdir()} == {0}
    finally:
        names = podman("volume", "ls", "-q").split()
        podman("volume", "rm", *[name for name in names if name.startswith((old, new))])
